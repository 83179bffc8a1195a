import { kernelBytes } from './kernel-bytes.ts'
import { openPlainKernel } from './plain-kernel.ts'

/**
 * The inner loops of boosting over one block of memory. Parameters named `…At` are byte addresses in it. There are two
 * implementations that leave the same bytes: WebAssembly, and JavaScript for a Node that cannot compile it.
 */
export type Kernel = {
  readonly memory: ArrayBuffer
  /** Bins of some values of a column: 0 for NaN, else one more than the number of edges below the value. */
  assignBins(
    valuesAt: number,
    count: number,
    edgesAt: number,
    edges: number,
    rowBinAt: number,
    stride: number,
    columnAt: number,
  ): void
  /** Softmax of scores (float64, class after class) into probabilities (float32), for a multiple of four rows. */
  refreshProbabilities(scoresAt: number, probabilitiesAt: number, classBytes: number, classes: number): void
  /** Writes 0, 1, 2, …, for a multiple of four rows. */
  numberRows(rowsAt: number, count: number): void
  /** What each row adds to a bin, 8 bytes: gradient, hessian and a one that counts it; for a multiple of four rows. */
  fillGradients(
    probabilitiesAt: number,
    labelsAt: number,
    label: number,
    count: number,
    gradientsAt: number,
  ): void
  /** Sums per feature and bin over some rows, which ascend; exact. `blockAt` has room for `blockBytes`. */
  fillHistogram(
    rowsAt: number,
    count: number,
    binsAt: number,
    stride: number,
    gradientsAt: number,
    histogramAt: number,
    blockAt: number,
  ): void
  subtractHistogram(fromAt: number, otherAt: number, bytes: number): void
  /** Finds the best split of the leaf whose sums stand at `splitAt` and writes it behind them. */
  findSplit(
    histogramAt: number,
    featuresAt: number,
    featureCount: number,
    binCountsAt: number,
    splitAt: number,
    l2: number,
    leastHessian: number,
    leastRows: number,
  ): void
  /** Moves rows whose bin, less `offset`, is at most `limit` before the others; says how many. */
  partitionRows(
    rowsAt: number,
    count: number,
    spareAt: number,
    columnAt: number,
    offset: number,
    limit: number,
  ): number
  addToScores(rowsAt: number, count: number, scoresAt: number, value: number): void
}

/** Bytes of one feature in a histogram: 256 bins of 16, and a gap. */
export const featureBytes = 4160
/** The lowest bits of a packed sum count rows; there can be no more rows than these can count. */
export const countBits = 24
export const splitBytes = 64
/** Scratch memory of `fillHistogram` at the beginning of the block, all zero between two calls. */
export const panelBytes = 8 * 2112
/** Scratch memory of `fillHistogram` for 4,096 rows of `stride` bytes and their gradients. */
export const blockBytes = (stride: number): number => 4096 * (8 + stride)

/** A kernel with at least so many bytes of memory, all zero. */
export function openKernel(bytes: number): Kernel {
  return canCompile() ? openCompiledKernel(bytes) : openPlainKernel(bytes)
}

/** WebAssembly with its fixed-width vectors; a Node without a compiler (`--jitless`) has none. */
export function canCompile(): boolean {
  return globalThis.WebAssembly?.validate(wasm()) === true
}

export function openCompiledKernel(bytes: number): Kernel {
  compiled ??= new WebAssembly.Module(wasm())
  const memory = new WebAssembly.Memory({ initial: Math.ceil(bytes / pageBytes) })
  const { exports } = new WebAssembly.Instance(compiled, { kernel: { memory } })
  return { ...exports, memory: memory.buffer }
}

const pageBytes = 65_536
let compiled: object | undefined

function wasm(): Uint8Array {
  return Buffer.from(kernelBytes, 'base64')
}

/** What we use of WebAssembly; neither the language's library nor Node's types name it. */
declare global {
  var WebAssembly: {
    validate(bytes: Uint8Array): boolean
    Module: new (bytes: Uint8Array) => object
    Memory: new (size: { initial: number }) => { readonly buffer: ArrayBuffer }
    Instance: new (module: object, imports: object) => { readonly exports: Omit<Kernel, 'memory'> }
  }
}
