// SPIR-V as text, one instruction a line, as its disassemblers print it.

/**
 * Instructions of compute shaders by number: the name, then what its words are. t: the id of a type,
 * r: the id of the result, i: an id, l: a number, s: a text. The last letter stands for all that
 * follow.
 */
const INSTRUCTIONS = new Map(
  `
1 Undef tr|3 Source l|5 Name is|6 MemberName ils|7 String rs|10 Extension s|11 ExtInstImport rs
12 ExtInst trili|14 MemoryModel l|15 EntryPoint lisi|16 ExecutionMode il|17 Capability l
19 TypeVoid r|20 TypeBool r|21 TypeInt rl|22 TypeFloat rl|23 TypeVector ril|24 TypeMatrix ril
28 TypeArray ri|29 TypeRuntimeArray ri|30 TypeStruct ri|32 TypePointer rli|33 TypeFunction ri
41 ConstantTrue tr|42 ConstantFalse tr|43 Constant trl|44 ConstantComposite tri|46 ConstantNull tr
54 Function trli|55 FunctionParameter tr|56 FunctionEnd |57 FunctionCall tri|59 Variable trli
61 Load tril|62 Store iil|63 CopyMemory iil|65 AccessChain tri|68 ArrayLength tril|71 Decorate il
72 MemberDecorate il|77 VectorExtractDynamic tri|78 VectorInsertDynamic tri|79 VectorShuffle triil
80 CompositeConstruct tri|81 CompositeExtract tril|82 CompositeInsert triil|83 CopyObject tri
84 Transpose tri|109 ConvertFToU tri|110 ConvertFToS tri|111 ConvertSToF tri|112 ConvertUToF tri
113 UConvert tri|114 SConvert tri|115 FConvert tri|116 QuantizeToF16 tri|124 Bitcast tri
126 SNegate tri|127 FNegate tri|128 IAdd tri|129 FAdd tri|130 ISub tri|131 FSub tri|132 IMul tri
133 FMul tri|134 UDiv tri|135 SDiv tri|136 FDiv tri|137 UMod tri|138 SRem tri|139 SMod tri
140 FRem tri|141 FMod tri|142 VectorTimesScalar tri|148 Dot tri|154 Any tri|155 All tri
156 IsNan tri|157 IsInf tri|164 LogicalEqual tri|165 LogicalNotEqual tri|166 LogicalOr tri
167 LogicalAnd tri|168 LogicalNot tri|169 Select tri|170 IEqual tri|171 INotEqual tri
172 UGreaterThan tri|173 SGreaterThan tri|174 UGreaterThanEqual tri|175 SGreaterThanEqual tri
176 ULessThan tri|177 SLessThan tri|178 ULessThanEqual tri|179 SLessThanEqual tri
180 FOrdEqual tri|181 FUnordEqual tri|182 FOrdNotEqual tri|183 FUnordNotEqual tri
184 FOrdLessThan tri|185 FUnordLessThan tri|186 FOrdGreaterThan tri|187 FUnordGreaterThan tri
188 FOrdLessThanEqual tri|189 FUnordLessThanEqual tri|190 FOrdGreaterThanEqual tri
191 FUnordGreaterThanEqual tri|194 ShiftRightLogical tri|195 ShiftRightArithmetic tri
196 ShiftLeftLogical tri|197 BitwiseOr tri|198 BitwiseXor tri|199 BitwiseAnd tri|200 Not tri
201 BitFieldInsert tri|202 BitFieldSExtract tri|203 BitFieldUExtract tri|204 BitReverse tri
205 BitCount tri|224 ControlBarrier i|225 MemoryBarrier i|227 AtomicLoad tri|228 AtomicStore i
229 AtomicExchange tri|230 AtomicCompareExchange tri|234 AtomicIAdd tri|235 AtomicISub tri
236 AtomicSMin tri|237 AtomicUMin tri|238 AtomicSMax tri|239 AtomicUMax tri|240 AtomicAnd tri
241 AtomicOr tri|242 AtomicXor tri|245 Phi tri|246 LoopMerge iil|247 SelectionMerge il|248 Label r
249 Branch i|250 BranchConditional iiil|251 Switch iil|252 Kill |253 Return |254 ReturnValue i
255 Unreachable `
    .trim()
    .split(/[|\n]/)
    .map(entry => {
      const [number, name, words = ''] = entry.split(' ');
      return [Number(number), { name: `Op${name}`, words }];
    }),
);

/** Words before the first instruction: magic number, version, generator, bound, schema. */
const HEADER = 5;
/** Columns before the names of instructions. */
const INDENT = 12;
const utf8 = new TextDecoder();

/** @param {Uint32Array} module */
export function spirvText(module) {
  const [, version, , bound] = module;
  const lines = [`; SPIR-V ${(version >> 16) & 255}.${(version >> 8) & 255}, ${bound} ids`];
  for (let at = HEADER; at < module.length; ) {
    const length = module[at] >>> 16;
    if (length < 1) throw new Error(`SPIR-V has an instruction without words at ${at}`);
    lines.push(lineOf(module[at] & 65_535, module.subarray(at + 1, at + length)));
    at += length;
  }
  return lines.join('\n');
}

/** @param {number} number of the instruction @param {Uint32Array} words after the first */
function lineOf(number, words) {
  const { name, words: kinds } = INSTRUCTIONS.get(number) ?? { name: `Op${number}`, words: 'l' };
  const operands = [];
  let result = '';
  for (let at = 0, letter = 0; at < words.length; letter++) {
    const kind = kinds[Math.min(letter, kinds.length - 1)];
    if (kind === 's') {
      const { text, next } = textAt(words, at);
      operands.push(JSON.stringify(text));
      at = next;
      continue;
    }
    if (kind === 'r') result = `%${words[at]} = `;
    else operands.push(kind === 'l' ? String(words[at]) : `%${words[at]}`);
    at++;
  }
  return `${result.padStart(INDENT)}${[name, ...operands].join(' ')}`;
}

/** A text ends with the word that has a zero byte. @param {Uint32Array} words @param {number} from */
function textAt(words, from) {
  const bytes = new Uint8Array(
    words.buffer,
    words.byteOffset + 4 * from,
    4 * (words.length - from),
  );
  const end = bytes.indexOf(0);
  return { text: utf8.decode(bytes.subarray(0, end)), next: from + Math.floor(end / 4) + 1 };
}
