// The longest task of a page's main thread in a trace, in milliseconds of its own CPU time (on a
// busy machine it takes longer by the clock).

/** Events inside the longest task that are listed. */
const MOST_LISTED = 5;

/** A task of this length is felt, on a machine on which `work` takes USUAL_MS. */
const FELT_MS = 50;
const USUAL_MS = 5;
const TRIALS = 9;

/** `devtools.timeline` has what tasks did: scripts, garbage collection, layout. */
export const startTracing = (browser, page) =>
  browser.startTracing(page, {
    categories: ['toplevel', 'devtools.timeline', 'disabled-by-default-devtools.timeline'],
  });

export function longestTask(trace) {
  const events = JSON.parse(trace).traceEvents;
  const own = ownProcesses(events);
  const main = events
    .filter(event => event.name === 'thread_name' && event.args.name === 'CrRendererMain')
    .filter(event => !own.size || own.has(event.pid))
    .map(event => `${event.pid}/${event.tid}`);
  const done = events.filter(
    event => event.ph === 'X' && main.includes(`${event.pid}/${event.tid}`),
  );
  const tasks = done.filter(event => /RunTask$/.test(event.name));
  const longest = tasks.reduce((a, b) => (msOf(b) > msOf(a) ? b : a), { dur: 0 });
  return {
    ms: msOf(longest),
    count: tasks.length,
    isFelt: msOf(longest) > FELT_MS * slowness(),
    cpu: tasks.some(event => event.tdur != null),
    inside: insideOf(longest, done),
  };
}
/** Those that loaded a page of ours while it was traced: Chromium has pages of its own. */
const ownProcesses = events =>
  new Set(
    events
      .filter(({ name, args }) => name === 'CommitLoad' && /^(file|http)/.test(args.data?.url))
      .map(event => event.pid),
  );
const msOf = event => (event.tdur ?? event.dur) / 1000;

/** How many times as long as usual a fixed piece of work takes: on a slow core, or beside others. */
function slowness() {
  const times = Array.from({ length: TRIALS }, () => {
    const before = process.cpuUsage();
    work();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1000;
  });
  return Math.max(1, times.sort((a, b) => a - b)[TRIALS >> 1] / USUAL_MS);
}
/** Strings and objects, as opening a page has them. */
function work() {
  const seen = new Map();
  for (let i = 0; i < 60_000; i++) seen.set(`k${i % 5000}`, `${i}`.padStart(20));
  return seen.size;
}

/** What the task did, so that a failure can be understood: the longest events, with their times. */
function insideOf(task, events) {
  return events
    .filter(
      event =>
        event.pid === task.pid &&
        event.tid === task.tid &&
        event.ts >= task.ts &&
        event.ts + event.dur <= task.ts + task.dur &&
        !/RunTask$/.test(event.name),
    )
    .sort((a, b) => msOf(b) - msOf(a))
    .slice(0, MOST_LISTED)
    .map(event => `${event.name} ${msOf(event).toFixed(1)} ms ${event.args?.data?.type ?? ''}`);
}
