// The longest task of a page's main thread in a trace, in milliseconds of its own CPU time (on a
// busy machine it takes longer by the clock).

/** Events inside the longest task that are listed. */
const MOST_LISTED = 5;

/** `devtools.timeline` has what tasks did: scripts, garbage collection, layout. */
export const startTracing = (browser, page) =>
  browser.startTracing(page, {
    categories: ['toplevel', 'devtools.timeline', 'disabled-by-default-devtools.timeline'],
  });

export function longestTask(trace) {
  const events = JSON.parse(trace).traceEvents;
  const main = events
    .filter(event => event.name === 'thread_name' && event.args.name === 'CrRendererMain')
    .map(event => `${event.pid}/${event.tid}`);
  const done = events.filter(
    event => event.ph === 'X' && main.includes(`${event.pid}/${event.tid}`),
  );
  const tasks = done.filter(event => /RunTask$/.test(event.name));
  const longest = tasks.reduce((a, b) => (msOf(b) > msOf(a) ? b : a), { dur: 0 });
  return {
    ms: msOf(longest),
    count: tasks.length,
    cpu: tasks.some(event => event.tdur != null),
    inside: insideOf(longest, done),
  };
}
const msOf = event => (event.tdur ?? event.dur) / 1000;

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
