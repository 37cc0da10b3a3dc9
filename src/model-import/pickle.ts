/** A name that a pickle refers to. It is only ever compared, never looked up or called. */
export type PickledStorage = { storageType: string; key: string; location: string; elements: number };

/** A tensor as torch pickles it: a view of a storage. */
export type PickledTensor = { storage: PickledStorage; offset: number; shape: number[]; stride: number[] };

/** What is wrong with a pickle, as the end of a sentence. */
export class PickleError extends Error {}

class Global {
  constructor(readonly name: string) {}
}
class Storage {
  constructor(readonly value: PickledStorage) {}
}
class Tensor {
  constructor(readonly value: PickledTensor) {}
}
const MARK = Symbol("mark");

/** The only things that a state_dict calls. Every other name ends the reading. */
const CALLS = [
  "collections OrderedDict",
  "torch._utils _rebuild_tensor_v2",
  "torch._utils _rebuild_parameter",
];
const STORAGE_NAME = /^torch [A-Z][A-Za-z0-9]{0,40}Storage$/;
/** Tensors of speech models have four dimensions at most. */
const MAX_DIMENSIONS = 8;

/** Pickle's operations that a state_dict of torch consists of (protocols 2 to 5), by their bytes. */
const OP = {
  proto: 0x80,
  frame: 0x95,
  stop: 0x2e,
  mark: 0x28,
  emptyDict: 0x7d,
  emptyList: 0x5d,
  emptyTuple: 0x29,
  tuple: 0x74,
  tuple1: 0x85,
  tuple2: 0x86,
  tuple3: 0x87,
  unicode: 0x58,
  shortUnicode: 0x8c,
  put: 0x71,
  longPut: 0x72,
  memoize: 0x94,
  get: 0x68,
  longGet: 0x6a,
  global: 0x63,
  stackGlobal: 0x93,
  int1: 0x4b,
  int2: 0x4d,
  int4: 0x4a,
  long1: 0x8a,
  float: 0x47,
  none: 0x4e,
  true: 0x88,
  false: 0x89,
  persistentId: 0x51,
  reduce: 0x52,
  build: 0x62,
  setItem: 0x73,
  setItems: 0x75,
  append: 0x61,
  appends: 0x65,
} as const;

/**
 * Reads a pickled state_dict: a dictionary of names and tensors. It interprets some 30 of pickle's operations and knows
 * a handful of names; nothing that a pickle names is looked up, imported or called. Memory and time grow with the bytes
 * read: a value can hold another one many times, so no operation walks through what its values hold.
 *
 * @returns the tensors by name, in order
 * @throws PickleError for anything else
 */
export function readStateDict(data: Buffer): Map<string, PickledTensor> {
  return tensorsOf(new PickleReader(data).read());
}

/**
 * Reads a pickled checkpoint in the form of OpenAI's own: a dictionary with the sizes of the model (`dims`) and its
 * state_dict (`model_state_dict`). Other entries are left out. It has the same bounds as `readStateDict`.
 *
 * @throws PickleError for anything else
 */
export function readOpenAiCheckpoint(data: Buffer): {
  sizes: Map<string, number>;
  tensors: Map<string, PickledTensor>;
} {
  const state = new PickleReader(data).read();
  const dims = state instanceof Map ? (state.get("dims") as unknown) : undefined;
  if (!(state instanceof Map) || !(dims instanceof Map))
    throw new PickleError("is not one of OpenAI's checkpoints: it has no dims");
  const sizes = new Map<string, number>();
  for (const [name, size] of dims) {
    if (typeof name !== "string" || !isCount(size))
      throw new PickleError("has a size that is not a whole number");
    sizes.set(name, size);
  }
  return { sizes, tensors: tensorsOf(state.get("model_state_dict")) };
}

function tensorsOf(state: unknown): Map<string, PickledTensor> {
  if (!(state instanceof Map)) throw new PickleError("holds something else than a state_dict");
  const tensors = new Map<string, PickledTensor>();
  for (const [name, tensor] of state) {
    if (typeof name !== "string") throw new PickleError("holds something with a name that is not a text");
    if (!(tensor instanceof Tensor))
      throw new PickleError(`holds ${JSON.stringify(name.slice(0, 80))}, which is not a tensor`);
    tensors.set(name, tensor.value);
  }
  return tensors;
}

class PickleReader {
  #at = 0;
  readonly #stack: unknown[] = [];
  readonly #memo = new Map<number, unknown>();

  constructor(readonly data: Buffer) {}

  read(): unknown {
    if (this.#byte() !== OP.proto) throw new PickleError("does not begin as a pickle");
    const protocol = this.#byte();
    if (protocol < 2 || protocol > 5) throw new PickleError(`is of protocol ${protocol}`);
    for (;;) {
      const op = this.#byte();
      if (op === OP.stop) break;
      if (!this.#constant(op) && !this.#memory(op) && !this.#structure(op)) {
        throw new PickleError(`has the operation 0x${op.toString(16)}, which no plain state_dict has`);
      }
    }
    const value = this.#pop();
    if (this.#stack.length > 0 || this.#at !== this.data.length)
      throw new PickleError("has more after its end");
    return value;
  }

  /** Operations that push a value. */
  #constant(op: number): boolean {
    switch (op) {
      case OP.emptyDict:
        return this.#push(new Map());
      case OP.emptyList:
      case OP.emptyTuple:
        return this.#push([]);
      case OP.unicode:
        return this.#push(this.#text(this.#take(4).readUInt32LE()));
      case OP.shortUnicode:
        return this.#push(this.#text(this.#byte()));
      case OP.int1:
        return this.#push(this.#byte());
      case OP.int2:
        return this.#push(this.#take(2).readUInt16LE());
      case OP.int4:
        return this.#push(this.#take(4).readInt32LE());
      case OP.long1:
        return this.#push(this.#long());
      case OP.float:
        return this.#push(this.#take(8).readDoubleBE());
      case OP.none:
        return this.#push(null);
      case OP.true:
        return this.#push(true);
      case OP.false:
        return this.#push(false);
      default:
        return false;
    }
  }

  /** Operations on memo, marks and names. */
  #memory(op: number): boolean {
    switch (op) {
      case OP.frame:
        this.#take(8);
        return true;
      case OP.mark:
        return this.#push(MARK);
      case OP.put:
        return this.#remember(this.#byte());
      case OP.longPut:
        return this.#remember(this.#take(4).readUInt32LE());
      case OP.memoize:
        return this.#remember(this.#memo.size);
      case OP.get:
        return this.#recall(this.#byte());
      case OP.longGet:
        return this.#recall(this.#take(4).readUInt32LE());
      case OP.global: {
        const module = this.#line();
        return this.#push(globalOf(module, this.#line()));
      }
      case OP.stackGlobal: {
        const name = this.#pop();
        return this.#push(globalOf(this.#pop(), name));
      }
      default:
        return false;
    }
  }

  /** Operations that make a value of others. */
  #structure(op: number): boolean {
    switch (op) {
      case OP.tuple:
        return this.#push(this.#sinceMark());
      case OP.tuple1:
      case OP.tuple2:
      case OP.tuple3:
        return this.#push(this.#popSeveral(op - OP.tuple1 + 1));
      case OP.persistentId:
        return this.#push(storageOf(this.#pop()));
      case OP.reduce: {
        const args = this.#pop();
        return this.#push(callOf(this.#pop(), args));
      }
      case OP.build:
        // The state of an OrderedDict, torch's `_metadata`. It says nothing about the tensors.
        this.#pop();
        this.#top(Map);
        return true;
      case OP.setItem:
        return this.#setItems(this.#popSeveral(2));
      case OP.setItems:
        return this.#setItems(this.#sinceMark());
      case OP.append: {
        const value = this.#pop();
        this.#top(Array).push(value);
        return true;
      }
      case OP.appends: {
        const values = this.#sinceMark();
        const list = this.#top(Array);
        for (const value of values) list.push(value);
        return true;
      }
      default:
        return false;
    }
  }

  #take(length: number): Buffer {
    if (length > this.data.length - this.#at) throw new PickleError("is truncated");
    this.#at += length;
    return this.data.subarray(this.#at - length, this.#at);
  }

  #byte(): number {
    return this.#take(1).readUInt8();
  }

  #text(length: number): string {
    return this.#take(length).toString("utf8");
  }

  #line(): string {
    const end = this.data.indexOf(10, this.#at);
    if (end === -1) throw new PickleError("is truncated");
    const text = this.#text(end - this.#at);
    this.#at++;
    return text;
  }

  #long(): number {
    const length = this.#byte();
    const bytes = this.#take(length);
    if (length > 8) throw new PickleError("has a number of more than 64 bits");
    return length === 0
      ? 0
      : Number(BigInt.asIntN(8 * length, BigInt(`0x${Buffer.from(bytes).reverse().toString("hex")}`)));
  }

  #push(value: unknown): true {
    this.#stack.push(value);
    return true;
  }

  #pop(): unknown {
    const value = this.#stack.pop();
    if (value === undefined || value === MARK) throw new PickleError("takes a value where none is");
    return value;
  }

  #popSeveral(count: number): unknown[] {
    const values = Array.from({ length: count }, () => this.#pop());
    return values.reverse();
  }

  #sinceMark(): unknown[] {
    const mark = this.#stack.lastIndexOf(MARK);
    if (mark === -1) throw new PickleError("has no mark where one is needed");
    return this.#stack.splice(mark).slice(1);
  }

  #top<T>(type: new () => T): T {
    const value = this.#stack.at(-1);
    if (!(value instanceof type)) throw new PickleError("changes something that is not a list or dictionary");
    return value;
  }

  #remember(key: number): true {
    const value = this.#stack.at(-1);
    if (value === undefined || value === MARK) throw new PickleError("remembers a value where none is");
    this.#memo.set(key, value);
    return true;
  }

  #recall(key: number): true {
    const value = this.#memo.get(key);
    if (value === undefined) throw new PickleError("recalls a value that it has not remembered");
    return this.#push(value);
  }

  #setItems(items: unknown[]): true {
    const target = this.#top<Map<unknown, unknown>>(Map);
    if (items.length % 2 !== 0) throw new PickleError("has a key without a value");
    for (let i = 0; i < items.length; i += 2) {
      if (target.has(items[i])) throw new PickleError("has a name twice");
      target.set(items[i], items[i + 1]);
    }
    return true;
  }
}

function globalOf(module: unknown, name: unknown): Global {
  if (typeof module !== "string" || typeof name !== "string")
    throw new PickleError("names something with a name that is not a text");
  const full = `${module} ${name}`;
  if (CALLS.includes(full) || STORAGE_NAME.test(full)) return new Global(full);
  throw new PickleError(
    `names ${JSON.stringify(full.slice(0, 80))}: it could run code, and a plain state_dict does not need it`,
  );
}

/** Reads the tuple that torch writes for a storage: `("storage", type, key, location, elements)`. */
function storageOf(value: unknown): Storage {
  const [word, type, key, location, elements] = Array.isArray(value) ? (value as unknown[]) : [];
  if (
    word !== "storage" ||
    !(type instanceof Global) ||
    !STORAGE_NAME.test(type.name) ||
    typeof key !== "string" ||
    !/^\d{1,10}$/.test(key) ||
    typeof location !== "string" ||
    !isCount(elements)
  ) {
    throw new PickleError("refers to something that is not a storage");
  }
  return new Storage({ storageType: type.name.slice("torch ".length), key, location, elements });
}

function callOf(callee: unknown, args: unknown): unknown {
  if (!(callee instanceof Global) || !Array.isArray(args))
    throw new PickleError("calls something that is not a name");
  const given = args as unknown[];
  switch (callee.name) {
    case "collections OrderedDict":
      if (given.length > 0) throw new PickleError("fills a dictionary in an unusual way");
      return new Map();
    case "torch._utils _rebuild_parameter":
      if (!(given[0] instanceof Tensor)) throw new PickleError("has a parameter that is not a tensor");
      return given[0];
    case "torch._utils _rebuild_tensor_v2":
      return tensorOf(given);
    default:
      throw new PickleError(`calls ${callee.name}`);
  }
}

function tensorOf([storage, offset, shape, stride]: unknown[]): Tensor {
  if (
    !(storage instanceof Storage) ||
    !isCount(offset) ||
    !isCounts(shape) ||
    !isCounts(stride) ||
    shape.length !== stride.length
  ) {
    throw new PickleError("has a tensor that is not described in the usual way");
  }
  return new Tensor({ storage: storage.value, offset, shape, stride });
}

const isCount = (value: unknown): value is number =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
const isCounts = (value: unknown): value is number[] =>
  Array.isArray(value) && value.length <= MAX_DIMENSIONS && value.every(isCount);
