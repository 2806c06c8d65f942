; No node has two patterns: of several, Neovim takes the last and Helix the first. Numbers have
; Helix's name before Neovim's.

(doc_comment) @comment.documentation
(comment) @comment
(string) @string
(integer) @constant.numeric.integer @number
(float) @constant.numeric.float @number.float
[(true) (false)] @boolean
(dtype) @type.builtin
(any_float) @type.builtin

["import" "from" "as" "wg"] @keyword.import
["dim" "const" "dtype" "layer" "model" "test" "param" "state" "optimizer" "group" "replace"
 "frozen" "remat" "when" "entry"] @keyword
["fn" "grad"] @keyword.function
["return"] @keyword.return
["if" "then" "else"] @keyword.conditional
["for" "in" "step"] @keyword.repeat
["minimize" "with" "over" "assert"] @keyword
["and" "or" "not"] @keyword.operator
(new_axis) @keyword.operator

(layer name: (identifier) @type)
(model name: (identifier) @type)
(constructor type: (path (identifier) @type))
(function name: (identifier) @function)
(entry name: (identifier) @function)
(call function: (identifier) @function.call)
(call function: (member name: (identifier) @function.method))
(dim_declaration name: (identifier) @constant)
(const name: (identifier) @constant)
(size_parameters (identifier) @constant)
(parameter name: (identifier) @variable.parameter)
(named_argument name: (identifier) @variable.parameter)
(setting name: (identifier) @property)
(param name: (identifier) @property)
(state name: (identifier) @property)
(submodule name: (identifier) @property)

["=" ":=" "~" "->" "|>" "+" "-" "*" "/" "%" "@" "**" "==" "!=" "<" "<=" ">" ">=" ".." "+:"] @operator
["(" ")" "[" "]" "{" "}"] @punctuation.bracket
["," "." ":"] @punctuation.delimiter
