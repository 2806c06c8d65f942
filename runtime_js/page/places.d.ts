// What `wgcc build` puts into bundle.js and served_bundle.js: see wgcc/bundle/page.py.

import type { Plan } from '../core/plan.js';

declare global {
  const __PLAN__: Plan & { model: { source: string } };
  const __KERNELS__: Record<string, string>;
  const __SOURCE__: string;
  const __FILES__: Record<string, Uint8Array<ArrayBuffer>>;
  const __FILES_BESIDE__: { name: string; size: number; chosen?: File }[];
  const __CONSTANTS__: string | undefined;
  const __PREPARATION__: unknown;
  const __SEAL__: { bundle: string; kernels: string; weights?: string };
  const __WEIGHTS__: string | undefined;
  const __TOKENS__: (() => Promise<unknown>) | undefined;
  const __TOKENIZER__: string | undefined;
  const __TWIN__: string | undefined;
  const __PARTS__: string[];
  /** The text of a worker: all files of the runtime. */
  const runtime: () => unknown;
}
