/* A Vulkan layer that writes each shader module to a file of the folder $WGCC_SPIRV, and gives the
 * driver an empty shader in its place: what WGSL compilers hand over is wanted, not what a software
 * driver makes of it. It needs no headers of Vulkan, of which it declares the little that it uses. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*Function)(void);
typedef Function (*GetProc)(void *, const char *);
typedef int32_t (*Create)(void *, const void *, const void *, void *);
typedef int32_t (*CreateDevice)(void *, const void *, const void *, void **);
typedef int32_t (*CreateInstance)(const void *, const void *, void **);

typedef struct Link {
  struct Link *next;
  GetProc get_instance_proc;
  GetProc get_proc;
} Link;
typedef struct Chain {
  int32_t type;
  const struct Chain *next;
  int32_t function;
  Link *link;
} Chain;
typedef struct {
  int32_t type;
  const void *next;
  uint32_t flags;
  size_t size;
  const uint32_t *code;
} ModuleInfo;

typedef struct {
  int32_t type;
  const Chain *next;
  uint32_t switches[55];
} Features;
typedef struct {
  int32_t type;
  const Chain *next;
  uint32_t flags, queue_count;
  const void *queues;
  uint32_t layer_count;
  const void *layers;
  uint32_t extension_count;
  const void *extensions;
  uint32_t *switches;
} DeviceInfo;
typedef void (*GetFeatures)(void *, void *);

/* Dawn refuses drivers without arrays of bindings (switches 33 to 36), such as Mesa's of 2022. No
 * shader gets to the driver, so they are promised to Dawn, and not asked for. */
enum { FEATURES = 1000059000, FIRST_PROMISED = 33, LAST_PROMISED = 36 };
enum { INSTANCE_CHAIN = 47, DEVICE_CHAIN = 48, ENTRY_POINT = 15, MOST_NAME = 64 };

static GetProc next_instance_proc, next_device_proc;
static Create next_create_module;
static int count;

static GetFeatures next_features, next_features2;

static void set_promised(uint32_t *switches, uint32_t to) {
  if (!switches) return;
  for (int i = FIRST_PROMISED; i <= LAST_PROMISED; i++) switches[i] = to;
}

static void get_features(void *adapter, uint32_t *switches) {
  next_features(adapter, switches);
  set_promised(switches, 1);
}

static void get_features2(void *adapter, Features *features) {
  next_features2(adapter, features);
  set_promised(features->switches, 1);
}

static void ask_for_none_promised(const DeviceInfo *info) {
  set_promised(info->switches, 0);
  for (const Chain *chain = info->next; chain; chain = chain->next)
    if (chain->type == FEATURES) set_promised(((Features *)chain)->switches, 0);
}

static Link *take_link(const void *info, int32_t type) {
  const Chain *chain = ((const Chain *)info)->next;
  while (chain && !(chain->type == type && chain->function == 0)) chain = chain->next;
  if (!chain) return NULL;
  Link *link = chain->link;
  ((Chain *)chain)->link = link->next;
  return link;
}

static void dump(const ModuleInfo *info) {
  char path[4096];
  const char *folder = getenv("WGCC_SPIRV");
  if (!folder) return;
  snprintf(path, sizeof path, "%s/%06d.spv", folder, count++);
  FILE *file = fopen(path, "wb");
  if (!file) return;
  fwrite(info->code, 1, info->size, file);
  fclose(file);
}

/* The words of the name of the entry point; their number is returned. */
static size_t entry_name(const ModuleInfo *info, uint32_t *name) {
  size_t words = info->size / 4;
  for (size_t i = 5; i < words && info->code[i] >> 16; i += info->code[i] >> 16) {
    if ((info->code[i] & 0xffff) != ENTRY_POINT) continue;
    for (size_t k = 0; k < MOST_NAME && i + 3 + k < words; k++) {
      name[k] = info->code[i + 3 + k];
      if (!(name[k] >> 24)) return k + 1;
    }
  }
  return 0;
}

static int32_t create_module(void *device, const ModuleInfo *info, const void *with, void *out) {
  static const uint32_t head[] = {0x07230203, 0x00010000, 0, 5, 0, 2 << 16 | 17, 1, 3 << 16 | 14, 0, 1};
  static const uint32_t body[] = {6 << 16 | 16, 1, 17, 1, 1, 1, 2 << 16 | 19, 2, 3 << 16 | 33, 3, 2,
                                  5 << 16 | 54, 2, 1, 0, 3, 2 << 16 | 248, 4, 1 << 16 | 253, 1 << 16 | 56};
  uint32_t code[sizeof head / 4 + 3 + MOST_NAME + sizeof body / 4], name[MOST_NAME];
  dump(info);
  size_t length = entry_name(info, name), at = sizeof head / 4;
  if (!length) return next_create_module(device, info, with, out);
  memcpy(code, head, sizeof head);
  code[at++] = (uint32_t)(3 + length) << 16 | ENTRY_POINT;
  code[at++] = 5; /* a compute shader */
  code[at++] = 1;
  memcpy(code + at, name, length * 4);
  memcpy(code + at + length, body, sizeof body);
  ModuleInfo empty = *info;
  empty.code = code;
  empty.size = (at + length) * 4 + sizeof body;
  return next_create_module(device, &empty, with, out);
}

static int32_t create_instance(const void *info, const void *with, void **out) {
  Link *link = take_link(info, INSTANCE_CHAIN);
  if (!link) return -3;
  next_instance_proc = link->get_instance_proc;
  Function create = next_instance_proc(NULL, "vkCreateInstance");
  int32_t result = ((CreateInstance)create)(info, with, out);
  if (result) return result;
  /* Asked for later, the loader would give the functions of this layer. */
  next_features = (GetFeatures)next_instance_proc(*out, "vkGetPhysicalDeviceFeatures");
  next_features2 = (GetFeatures)next_instance_proc(*out, "vkGetPhysicalDeviceFeatures2");
  return 0;
}

static int32_t create_device(void *adapter, const void *info, const void *with, void **out) {
  Link *link = take_link(info, DEVICE_CHAIN);
  if (!link) return -3;
  next_device_proc = link->get_proc;
  Function create = link->get_instance_proc(NULL, "vkCreateDevice");
  ask_for_none_promised(info);
  int32_t result = ((CreateDevice)create)(adapter, info, with, out);
  if (result == 0) next_create_module = (Create)next_device_proc(*out, "vkCreateShaderModule");
  return result;
}

Function wgcc_get_device_proc(void *device, const char *name) {
  if (!strcmp(name, "vkGetDeviceProcAddr")) return (Function)wgcc_get_device_proc;
  if (!strcmp(name, "vkCreateShaderModule")) return (Function)create_module;
  return next_device_proc ? next_device_proc(device, name) : NULL;
}

Function wgcc_get_instance_proc(void *instance, const char *name) {
  if (!strcmp(name, "vkGetInstanceProcAddr")) return (Function)wgcc_get_instance_proc;
  if (!strcmp(name, "vkCreateInstance")) return (Function)create_instance;
  if (!strcmp(name, "vkCreateDevice")) return (Function)create_device;
  if (!strcmp(name, "vkGetPhysicalDeviceFeatures")) return (Function)get_features;
  if (!strncmp(name, "vkGetPhysicalDeviceFeatures2", 28)) return (Function)get_features2;
  if (!strcmp(name, "vkGetDeviceProcAddr")) return (Function)wgcc_get_device_proc;
  if (!strcmp(name, "vkCreateShaderModule")) return (Function)create_module;
  return next_instance_proc ? next_instance_proc(instance, name) : NULL;
}
