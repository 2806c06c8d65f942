// The longest task of a page's main thread in a trace, in milliseconds of its own CPU time (on a
// busy machine it takes longer by the clock).

export function longestTask(trace) {
  const events = JSON.parse(trace).traceEvents;
  const main = events
    .filter(event => event.name === 'thread_name' && event.args.name === 'CrRendererMain')
    .map(event => `${event.pid}/${event.tid}`);
  const tasks = events.filter(
    event =>
      /RunTask$/.test(event.name) && event.ph === 'X' && main.includes(`${event.pid}/${event.tid}`),
  );
  return {
    ms: Math.max(0, ...tasks.map(event => (event.tdur ?? event.dur) / 1000)),
    count: tasks.length,
    cpu: tasks.some(event => event.tdur != null),
  };
}
