// What the page says about data that was refused.

/** Advice for the command line, and what the page says instead. @type {[RegExp, string][]} */
const ADVICE = [
  [/\? Give --target NAME; there are: .*$/s, '? Choose it in the table below.'],
  [/: give --decimal , or --decimal \.$/, '.'],
  [/: leave them out with --unknown drop$/, '.'],
  [/: choose (its columns|another column) with --.*$/s, ': choose $1 below.'],
  [/\. Choose them with --columns$/, '. Choose them in the table below.'],
  [/\. Name its classes with wgcc build --labels.*$/s, '.'],
  [/: rebuild with --set (\w+)=(\d+)$/, ': build the model with --set $1=$2, or bring more rows.'],
];

/** @param {any} error */
export function dataProblem({ code, message }) {
  const text = code === 'data' ? message.replace('data: ', '') : message;
  return ADVICE.reduce((found, [pattern, advice]) => found.replace(pattern, advice), text);
}
