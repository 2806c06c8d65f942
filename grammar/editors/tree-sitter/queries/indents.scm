[(members) (block) (optimizer) (group) (list) (tuple) (arguments) (parameters)] @indent.begin
["}" "]" ")"] @indent.end @indent.branch
