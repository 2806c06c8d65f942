// What to do about missing WebGPU, in the browser or program at hand.

/**
 * @typedef {object} Surroundings
 * @property {string} userAgent
 * @property {boolean} isSecure whether browsers give the page everything
 * @property {string} program 'browser', 'node' or 'deno'
 */

/** The first versions with WebGPU. */
const CHROME = 113;
const CHROME_ANDROID = 121;
const FIREFOX_WINDOWS = 141;
const FIREFOX_MAC = 145;
const SAFARI = 26;

/** Where this code runs. @param {any} [scope] @returns {Surroundings} */
export function surroundings(scope = globalThis) {
  const { navigator, isSecureContext = true, process } = scope;
  const own = process?.versions?.node ? 'node' : 'browser';
  const program = 'Deno' in scope ? 'deno' : own;
  return { userAgent: `${navigator?.userAgent}`, isSecure: isSecureContext, program };
}

/** Where there is no WebGPU at all. @param {Surroundings} at */
export function adviceWithoutWebGpu(at) {
  if (at.program === 'node')
    return 'Node has no WebGPU of its own: `npm install webgpu`, then load({device: create([])})';
  if (at.program === 'deno') return 'update Deno: version 2 has WebGPU';
  if (!at.isSecure)
    return 'browsers give WebGPU only to pages from https, from localhost or from a file, and this page came by http';
  return ownAdvice(at.userAgent);
}

/** Where WebGPU has no adapter. @param {Surroundings} at */
export function adviceWithoutAdapter({ userAgent, program }) {
  const driver = 'install or update the graphics driver';
  if (program !== 'browser') return `${driver} (on Linux a Vulkan driver)`;
  if (has(userAgent, 'Firefox')) return `${driver}; about:support says why, under WebGPU`;
  if (!has(userAgent, 'Chrome')) return 'update the system; the lockdown mode of Apple has none';
  const flag = has(userAgent, 'Linux') ? `, or ${LINUX_FLAGS}` : '';
  return `turn on graphics acceleration in the settings, ${driver}${flag}; chrome://gpu says why`;
}

const LINUX_FLAGS =
  'turn on chrome://flags/#enable-unsafe-webgpu and chrome://flags/#enable-vulkan';

/** @param {string} userAgent of a browser on a secure page */
function ownAdvice(userAgent) {
  if (/iPhone|iPad|iPod/.test(userAgent)) return appleAdvice(userAgent);
  if (has(userAgent, 'Android')) return androidAdvice(userAgent);
  if (has(userAgent, 'Firefox')) return firefoxAdvice(userAgent);
  if (has(userAgent, 'Chrome')) return chromeAdvice(userAgent);
  if (has(userAgent, 'Safari'))
    return `Safari has WebGPU from version ${SAFARI}, on macOS ${SAFARI} or newer; this is ${version(userAgent, 'Version')}. Update, or use Chrome`;
  return 'use a current Chrome, Edge, Safari or Firefox';
}

/** All browsers on iPhones and iPads are Safari inside. @param {string} userAgent */
function appleAdvice(userAgent) {
  const system = `iOS or iPadOS ${SAFARI} or newer`;
  return isInApp(userAgent)
    ? `the browser inside an app may have no WebGPU: open this page in Safari, on ${system}`
    : `browsers on iPhone and iPad have WebGPU on ${system}: update the system`;
}

/** @param {string} userAgent */
function isInApp(userAgent) {
  return (
    !/Version\/|CriOS|FxiOS|EdgiOS/.test(userAgent) || /FBA[NV]|Instagram|Line\//.test(userAgent)
  );
}

/** @param {string} userAgent */
function androidAdvice(userAgent) {
  const chrome = `Chrome ${CHROME_ANDROID} or newer, on Android 12 or newer`;
  if (/; wv\)|FBA[NV]|Instagram|Line\//.test(userAgent))
    return `the browser inside an app has no WebGPU: open this page in ${chrome}`;
  return `on Android, WebGPU is in ${chrome}`;
}

/** @param {string} userAgent */
function firefoxAdvice(userAgent) {
  const here = `this is ${version(userAgent, 'Firefox')}`;
  if (has(userAgent, 'Windows'))
    return `Firefox has WebGPU from version ${FIREFOX_WINDOWS} on Windows; ${here}. Update, or set dom.webgpu.enabled in about:config to true`;
  if (has(userAgent, 'Mac'))
    return `Firefox has WebGPU from version ${FIREFOX_MAC} on Macs with Apple silicon; ${here}. Update, or use Safari ${SAFARI} or Chrome`;
  return 'Firefox on Linux has WebGPU in Nightly; in other versions set dom.webgpu.enabled in about:config to true, or use Chrome';
}

/** @param {string} userAgent */
function chromeAdvice(userAgent) {
  if (version(userAgent, 'Chrome') < CHROME)
    return `Chrome and Edge have WebGPU from version ${CHROME}; this is ${version(userAgent, 'Chrome')}: update`;
  if (has(userAgent, 'Linux'))
    return `in Chrome on Linux, ${LINUX_FLAGS}; chrome://gpu says what is missing`;
  return 'turn on graphics acceleration in the settings; chrome://gpu says what is missing';
}

/** @param {string} userAgent @param {string} name */
function has(userAgent, name) {
  return userAgent.includes(name);
}

/** The main version. @param {string} userAgent @param {string} name */
function version(userAgent, name) {
  return Number(userAgent.match(new RegExp(`${name}/(\\d+)`))?.[1] ?? 0);
}
