/**
 * The .wg language for editors that colour and fold by tree-sitter. The rules are those of
 * ../../wg.lark, under the same names; src/scanner.c says which line breaks end a statement.
 *
 * `tree-sitter generate` writes src/parser.c, which is not kept here.
 */

// Names wherever the grammar does not expect the keyword. `new` is one, too, but not in an index.
const SOFT = [
  'wg',
  'from',
  'as',
  'over',
  'group',
  'test',
  'state',
  'model',
  'entry',
  'replace',
  'then',
  'when',
  'optimizer',
  'dtype',
  'with',
  'remat',
  'step',
  'grad',
];

const separated = rule => seq(rule, repeat(seq(',', rule)));
const list = rule => seq(separated(rule), optional(','));
const lines = ($, rule) =>
  seq(
    optional($._newline),
    optional(seq(rule, repeat(seq($._newline, rule)), optional($._newline))),
  );
const pair = (left, operator, right) => seq(left, field('operator', operator), right);
const block = ($, rule) => seq('{', lines($, rule), '}');

module.exports = grammar({
  name: 'wg',
  word: $ => $.identifier,
  externals: $ => [$._newline],
  extras: $ => [/[\s\uFEFF]/, $.doc_comment, $.comment],
  inline: $ => [$._item, $._member],

  rules: {
    source_file: $ => lines($, $._item),

    _item: $ =>
      choice(
        $.edition,
        $.import_names,
        $.import_module,
        $.dims,
        $.const,
        $.dtype_alias,
        $.layer,
        $.model,
        $.function,
        $.test,
        $.assertion,
      ),

    edition: $ => seq('wg', $.integer),
    import_names: $ => seq('import', separated($._name), 'from', $.string),
    import_module: $ => seq('import', $.string, 'as', $._name),
    dims: $ => seq('dim', separated($.dim_declaration)),
    dim_declaration: $ => seq(field('name', $._name), optional(seq('=', $._expression))),
    const: $ =>
      seq('const', field('name', $._name), optional(seq(':', $.type)), '=', $._expression),
    dtype_alias: $ => seq('dtype', field('name', $._name), '=', $.dtype),

    // ---- layers and models
    layer: $ => seq('layer', $._head, field('body', $.members)),
    model: $ => seq('model', $._head, field('body', $.members)),
    _head: $ => seq(field('name', $._name), optional($.size_parameters), optional($.parameters)),
    members: $ => block($, $._member),
    _member: $ =>
      choice(
        $.param,
        $.state,
        $.submodule,
        $.setting,
        $.dims,
        $.const,
        $.function,
        $.entry,
        $.optimizer,
        $.replace,
        $.assertion,
      ),

    size_parameters: $ => seq('[', list($._name), ']'),
    parameters: $ => seq('(', optional(list($.parameter)), ')'),
    parameter: $ => seq(field('name', $._name), ':', $._kind, optional(seq('=', $._expression))),
    _kind: $ => choice($.type, $.tuple_type, $.choice, 'layer', 'fn', 'dim'),
    choice: $ => seq($.string, repeat(seq('or', $.string))),

    param: $ =>
      seq(
        optional('frozen'),
        'param',
        field('name', $._name),
        ':',
        $.type,
        optional(seq(choice('~', '='), $._expression)),
        optional($.guard),
      ),
    state: $ =>
      seq('state', field('name', $._name), ':', $.type, '=', $._expression, optional($.guard)),
    submodule: $ =>
      seq(
        optional('frozen'),
        optional('remat'),
        field('name', $._name),
        optional($.list_size),
        ':',
        $.constructor,
        optional($.guard),
      ),
    guard: $ => seq('when', $._expression),
    list_size: $ => seq('[', optional(seq($._name, 'in')), $._expression, ']'),
    constructor: $ =>
      seq(
        field('type', $.path),
        optional(seq('[', list($._expression), ']')),
        optional($.arguments),
      ),
    setting: $ => seq(field('name', $._name), '=', $._expression),
    replace: $ => seq('replace', separated($.string), 'with', $.constructor),
    path: $ => prec.left(seq($._name, repeat(seq('.', $._name)))),

    // ---- functions and entries
    function: $ =>
      prec.right(
        seq(
          'fn',
          field('name', $._name),
          optional($.size_parameters),
          $.parameters,
          optional(seq('->', $._result)),
          $._body,
          optional($.gradient),
        ),
      ),
    gradient: $ => seq('grad', separated($._name), $.block),
    entry: $ =>
      seq(
        'entry',
        field('name', $._name),
        optional($.size_parameters),
        $.parameters,
        optional(seq('->', $._result)),
        optional($.averages),
        $._body,
      ),
    averages: $ => seq('with', $.path),
    _body: $ => choice(field('body', $.block), seq('=', field('body', $._expression))),
    _result: $ => choice($.type, $.tuple_type),
    tuple_type: $ => seq('(', list($.tuple_field), ')'),
    tuple_field: $ => seq(optional(seq(field('name', $._name), ':')), $._result),

    optimizer: $ =>
      seq(
        'optimizer',
        field('name', $._name),
        ':',
        field('rule', $._name),
        block($, choice($.setting, $.group)),
      ),
    group: $ =>
      seq('group', choice(separated($.string), seq('if', $._expression)), block($, $.setting)),

    test: $ => seq('test', field('name', $.string), field('body', $.block)),

    type: $ =>
      seq(
        choice($.dtype, $._name),
        optional($.any_float),
        optional(seq('[', optional($._shape), ']')),
      ),
    any_float: () => token.immediate('?'),
    _shape: $ => list(choice($._expression, $.rest)),
    rest: () => '..',

    // ---- statements
    block: $ => block($, $._statement),
    _statement: $ =>
      choice(
        $.binding,
        $.write,
        $._call_statement,
        $.return,
        $.minimize,
        $.for,
        $.if,
        $.assertion,
        $.function,
      ),
    binding: $ =>
      seq(field('left', $.targets), optional(seq(':', $.type)), '=', field('right', $.values)),
    targets: $ => separated($._postfix),
    values: $ => separated($._expression),
    write: $ => seq(field('left', $._postfix), ':=', field('right', $._expression)),
    _call_statement: $ => $._postfix,
    return: $ => seq('return', $.values),
    minimize: $ =>
      seq(
        'minimize',
        $._expression,
        'with',
        $._postfix,
        optional(seq('over', separated($.string))),
      ),
    for: $ =>
      seq('for', $._name, optional(seq(',', $._name)), 'in', $._expression, field('body', $.block)),
    if: $ => seq('if', $._expression, $.block, optional(seq('else', choice($.if, $.block)))),
    assertion: $ => seq('assert', $._expression, optional(seq(',', $.string))),

    // ---- expressions, the loosest first
    _expression: $ => choice($._pipe, $.conditional),
    conditional: $ => seq('if', $._expression, 'then', $._expression, 'else', $._expression),
    _pipe: $ => choice($._or, $.pipe),
    pipe: $ => seq($._pipe, '|>', $._postfix),
    _or: $ => choice($._and, alias($._or_pair, $.binary)),
    _or_pair: $ => pair($._or, 'or', $._and),
    _and: $ => choice($._not, alias($._and_pair, $.binary)),
    _and_pair: $ => pair($._and, 'and', $._not),
    _not: $ => choice($._compare, $.not),
    not: $ => seq('not', $._not),
    _compare: $ => choice($._range, alias($._compared_pair, $.binary)),
    _compared_pair: $ => pair($._range, choice('==', '!=', '<', '<=', '>', '>='), $._range),
    _range: $ => choice($._sum, $.range),
    range: $ => seq($._sum, '..', $._sum, optional(seq('step', $._sum))),
    _sum: $ => choice($._term, alias($._sum_pair, $.binary)),
    _sum_pair: $ => pair($._sum, choice('+', '-'), $._term),
    _term: $ => choice($._unary, alias($._term_pair, $.binary)),
    _term_pair: $ => pair($._term, choice('*', '/', '%', '@'), $._unary),
    _unary: $ => choice($._power, $.negative),
    negative: $ => seq('-', $._unary),
    _power: $ => choice($._postfix, alias($._power_pair, $.binary)),
    _power_pair: $ => pair($._postfix, '**', $._unary),

    _postfix: $ => choice($._atom, $.member, $.call, $.index),
    member: $ => seq($._postfix, '.', field('name', $._name)),
    call: $ => seq(field('function', $._postfix), $.arguments),
    index: $ => seq($._postfix, '[', optional(list($._index_item)), ']'),
    arguments: $ => seq('(', optional(list(choice($._expression, $.named_argument))), ')'),
    named_argument: $ => seq(field('name', $._name), '=', $._expression),
    _index_item: $ => choice($._expression, $.slice, $.window, $.rest, $.new_axis),
    slice: $ =>
      seq(optional($._expression), ':', optional($._expression), optional(seq(':', $._expression))),
    window: $ => seq($._expression, '+:', $._expression),
    new_axis: () => 'new',

    _atom: $ =>
      choice(
        $._name,
        $.integer,
        $.float,
        $.string,
        $.true,
        $.false,
        $.dtype,
        $.parenthesized,
        $.tuple,
        $.list,
      ),
    parenthesized: $ => seq('(', $._expression, ')'),
    tuple: $ => seq('(', $._expression, ',', optional(list($._expression)), ')'),
    list: $ => seq('[', optional(list($._expression)), ']'),

    // ---- tokens
    _name: $ => choice($.identifier, alias(choice(...SOFT), $.identifier)),
    identifier: () => /[A-Za-z_][A-Za-z0-9_]*/,
    dtype: () => choice('f32', 'f16', 'i32', 'u32', 'i8', 'u8', 'bool'),
    true: () => 'true',
    false: () => 'false',
    float: () => /[0-9][0-9_]*\.[0-9][0-9_]*([eE][+-]?[0-9]+)?|[0-9][0-9_]*[eE][+-]?[0-9]+/,
    integer: () => /[0-9][0-9_]*/,
    string: () => /"([^"\\\n]|\\.)*"/,
    doc_comment: () => token(prec(1, /\/\/\/[^\n]*/)),
    comment: () => /\/\/[^\n]*/,
  },
});
