// Lines of JSON on stdin and stdout: how run.py talks to the libraries' processes.
import { createInterface } from 'node:readline';

/** What stdin asks, line by line. */
export async function* requests() {
  for await (const line of createInterface({ input: process.stdin })) yield JSON.parse(line);
}

export const reply = value => process.stdout.write(`${JSON.stringify(value)}\n`);
