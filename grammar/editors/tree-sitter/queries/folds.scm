[(members) (block) (optimizer) (group) (list) (arguments)] @fold
