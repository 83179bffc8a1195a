import { createHash } from 'node:crypto'
import type { Forest } from './forest.ts'
import type { Blend, Boosted, Model, Prior, Softmax } from './model.ts'

/**
 * A model as bytes, exactly: magic, version, the model, and the SHA-256 of all before it. Numbers are
 * little-endian; an array is its length and its items. Equal models have equal bytes.
 */
export function encodeModel(model: Model): Uint8Array {
  const writer = createWriter()
  writer.u32(MAGIC)
  writer.u32(VERSION)
  writeModel(writer, model)
  const body = writer.bytes()
  return Buffer.concat([body, sha256(body)])
}

/** Reads what `encodeModel` wrote and refuses everything else with a `CorruptModel`. */
export function decodeModel(bytes: Uint8Array): Model {
  const body = bytes.subarray(0, Math.max(0, bytes.length - HASH_BYTES))
  const reader = createReader(body)
  check(reader.u32() === MAGIC, 'these bytes are no model')
  const version = reader.u32()
  check(version === VERSION, `version ${version} of the format is unknown`)
  check(sha256(body).equals(bytes.subarray(body.length)), 'the checksum is wrong')
  const model = readModel(reader, MAX_DEPTH)
  check(reader.atEnd(), 'there are bytes after the model')
  return model
}

export class CorruptModel extends Error {}

/** What manifests call these bytes. */
export const artifactFormat = 'rankledger-model/2'

/** The hash under which a model's bytes are registered. */
export function sha256Of(bytes: Uint8Array): string {
  return sha256(bytes).toString('hex')
}

/** 'RLCM', read as a little-endian number. */
const MAGIC = 0x4d434c52
const VERSION = 2
const HASH_BYTES = 32
const KINDS = ['prior', 'softmax', 'gbdt', 'blend'] as const
/** Blends of blends end somewhere. */
const MAX_DEPTH = 3
const MAX_CLASSES = 255
const MAX_FEATURES = 65_535

function writeModel(writer: Writer, model: Model): void {
  writer.u32(KINDS.indexOf(model.kind))
  writer.u32(model.classes)
  writer.u32(model.features)
  writer.f64(model.temperature)
  switch (model.kind) {
    case 'prior':
      writer.array(model.scores)
      break
    case 'softmax':
      for (const part of [model.mean, model.scale, model.bias, model.weights, model.missing])
        writer.array(part)
      break
    case 'gbdt':
      writer.array(model.bias)
      for (const part of forestArrays(model.forest)) writer.array(part)
      writer.array(model.expected ?? new Float64Array())
      break
    case 'blend':
      writer.array(model.weights)
      for (const part of model.parts) writeModel(writer, part)
  }
}

function forestArrays(forest: Forest): Items[] {
  const { roots, feature, threshold, left, right, missingLeft, leaves } = forest
  return [roots, feature, threshold, left, right, missingLeft, leaves]
}

function readModel(reader: Reader, depth: number): Model {
  check(depth > 0, 'blends are nested too deep')
  const kind = KINDS[reader.u32()]
  const classes = reader.u32()
  const features = reader.u32()
  const temperature = reader.f64()
  check(classes >= 2 && classes <= MAX_CLASSES, 'the number of classes is out of range')
  check(features <= MAX_FEATURES, 'the number of features is out of range')
  check(temperature > 0 && Number.isFinite(temperature), 'the temperature is no positive number')
  const shape = { classes, features, temperature }
  switch (kind) {
    case 'prior':
      return { kind, ...shape, scores: finite(reader.array(Float64Array, classes)) }
    case 'softmax':
      return readSoftmax(reader, shape)
    case 'gbdt':
      return readBoosted(reader, shape)
    case 'blend':
      return readBlend(reader, shape, depth)
    default:
      throw new CorruptModel('the kind of model is unknown')
  }
}

type Shape = Omit<Prior, 'kind' | 'scores'>

function readSoftmax(reader: Reader, shape: Shape): Softmax {
  const { classes, features } = shape
  const numbers = (length: number) => finite(reader.array(Float64Array, length))
  return {
    kind: 'softmax',
    ...shape,
    mean: numbers(features),
    scale: numbers(features),
    bias: numbers(classes),
    weights: numbers(classes * features),
    missing: numbers(classes * features),
  }
}

function readBoosted(reader: Reader, shape: Shape): Boosted {
  const bias = finite(reader.array(Float64Array, shape.classes))
  const forest: Forest = {
    roots: reader.array(Int32Array),
    feature: reader.array(Uint16Array),
    threshold: reader.array(Float32Array),
    left: reader.array(Int32Array),
    right: reader.array(Int32Array),
    missingLeft: reader.array(Uint8Array),
    leaves: finite(reader.array(Float64Array)),
  }
  checkForest(forest, shape)
  const expected = finite(reader.array(Float64Array))
  if (expected.length === 0) return { kind: 'gbdt', ...shape, bias, forest }
  check(expected.length === forest.feature.length, 'the branches and what they expect differ in number')
  return { kind: 'gbdt', ...shape, bias, forest, expected }
}

/** Every walk from a root stays inside the arrays and ends at a leaf. */
function checkForest(forest: Forest, { classes, features }: Shape): void {
  const { roots, feature, threshold, left, right, missingLeft, leaves } = forest
  const nodes = feature.length
  const sizes = [threshold.length, left.length, right.length, missingLeft.length]
  check(
    sizes.every((size) => size === nodes),
    'the arrays of the trees differ in length',
  )
  check(roots.length % classes === 0, 'a class lacks a tree')
  const fits = (child: number, after: number) =>
    child < 0 ? ~child < leaves.length : child > after && child < nodes
  check(
    roots.every((root) => fits(root, -1)),
    'a root points outside the trees',
  )
  for (let node = 0; node < nodes; node++) {
    check(fits(left[node]!, node) && fits(right[node]!, node), 'a branch points outside its tree')
    check(feature[node]! < features, 'a tree asks for a feature that does not exist')
    check(!Number.isNaN(threshold[node]!), 'a threshold is not a number')
    check(missingLeft[node]! <= 1, 'a side for missing values is unknown')
  }
}

function readBlend(reader: Reader, shape: Shape, depth: number): Blend {
  const weights = finite(reader.array(Float64Array))
  const parts = Array.from(weights, () => readModel(reader, depth - 1))
  for (const part of parts) {
    check(
      part.classes === shape.classes && part.features === shape.features,
      'the parts of a blend do not match',
    )
  }
  return { kind: 'blend', ...shape, weights, parts }
}

function finite(numbers: Float64Array): Float64Array {
  check(numbers.every(Number.isFinite), 'a number is not finite')
  return numbers
}

function check(holds: boolean, complaint: string): asserts holds {
  if (!holds) throw new CorruptModel(`corrupt model: ${complaint}`)
}

function sha256(bytes: Uint8Array): Buffer {
  return createHash('sha256').update(bytes).digest()
}

type Items = Uint8Array | Uint16Array | Int32Array | Float32Array | Float64Array

type Writer = ReturnType<typeof createWriter>

function createWriter() {
  const chunks: Buffer[] = []
  const u32 = (value: number) => {
    const chunk = Buffer.alloc(4)
    chunk.writeUInt32LE(value)
    chunks.push(chunk)
  }
  const f64 = (value: number) => {
    const chunk = Buffer.alloc(8)
    chunk.writeDoubleLE(value)
    chunks.push(chunk)
  }
  const array = (items: Items) => {
    u32(items.length)
    chunks.push(littleEndian(items.slice()))
  }
  return { u32, f64, array, bytes: () => Buffer.concat(chunks) }
}

type Reader = ReturnType<typeof createReader>

function createReader(body: Uint8Array) {
  let at = 0
  const take = (length: number) => {
    check(length <= body.length - at, 'it ends too early')
    at += length
    return Buffer.from(body.subarray(at - length, at))
  }
  const u32 = () => take(4).readUInt32LE()
  const f64 = () => take(8).readDoubleLE()
  function array<T extends Items>(Type: ItemsType<T>, expected?: number): T {
    const length = u32()
    check(expected === undefined || length === expected, 'an array has the wrong length')
    const bytes = take(length * Type.BYTES_PER_ELEMENT)
    const items = new Type(length)
    new Uint8Array(items.buffer).set(bytes)
    littleEndian(items)
    return items
  }
  return { u32, f64, array, atEnd: () => at === body.length }
}

type ItemsType<T> = { BYTES_PER_ELEMENT: number; new (length: number): T }

/** The bytes of an array in the order of the format; on a big-endian machine they are turned in place. */
function littleEndian(items: Items): Buffer {
  const bytes = Buffer.from(items.buffer, items.byteOffset, items.byteLength)
  if (!IS_BIG_ENDIAN) return bytes
  if (items.BYTES_PER_ELEMENT === 2) return bytes.swap16()
  if (items.BYTES_PER_ELEMENT === 4) return bytes.swap32()
  return items.BYTES_PER_ELEMENT === 8 ? bytes.swap64() : bytes
}

const IS_BIG_ENDIAN = new Uint8Array(Uint16Array.of(1).buffer)[0] === 0
