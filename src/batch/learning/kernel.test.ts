import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { buildKernel } from '../../../tools/build-kernel.ts'
import {
  blockBytes,
  canCompile,
  countBits,
  featureBytes,
  type Kernel,
  openCompiledKernel,
  splitBytes,
} from './kernel.ts'
import { gradientBits, hessianBits, openPlainKernel } from './plain-kernel.ts'
import { createRandom, type Random } from './random.ts'

const bytes = 4 << 20

/** Does the same to both kernels, on the same memory, and finds the same memory afterwards. */
function both(fill: (memory: ArrayBuffer) => void, act: (kernel: Kernel) => unknown): ArrayBuffer {
  const [compiled, plain] = [openCompiledKernel, openPlainKernel].map((open) => {
    const kernel = open(bytes)
    fill(kernel.memory)
    act(kernel)
    return kernel.memory
  })
  const differs = Buffer.compare(Buffer.from(compiled!, 0, bytes), Buffer.from(plain!, 0, bytes))
  expect(differs).toBe(0)
  return compiled!
}

const randoms = [1, 2, 3].map((seed) => [seed] as const)

test('the checked-in bytes are what the text gives', async () => {
  const here = new URL('kernel-bytes.ts', import.meta.url)
  expect(readFileSync(here, 'utf8')).toBe(await buildKernel())
})

test('this Node can run it', () => {
  expect(canCompile()).toBe(true)
})

test.each(randoms)('bins (%i)', (seed) => {
  const random = createRandom(seed)
  const edges = Float32Array.from({ length: 1 + random.below(255) }, () => random.float() * 8 - 4).sort()
  edges[edges.length - 1] = Number.POSITIVE_INFINITY
  const odd = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -0, 0, edges[0]!]
  const values = Float32Array.from({ length: 999 }, (_, row) => odd[row] ?? random.float() * 9 - 4.5)
  const memory = both(
    (memory) => {
      new Float32Array(memory, 1024, edges.length).set(edges)
      new Float32Array(memory, 4096, values.length).set(values)
    },
    (kernel) => kernel.assignBins(4096, values.length, 1024, edges.length, 32_770, 8, 65_536),
  )
  const expected = Array.from(values, (value) =>
    Number.isNaN(value) ? 0 : edges.findIndex((edge) => value <= edge) + 1,
  )
  expect(Array.from(new Uint8Array(memory, 65_536, values.length))).toEqual(expected)
  expect(Array.from(values, (_, row) => new Uint8Array(memory)[32_770 + row * 8])).toEqual(expected)
})

test.each([2, 3, 7])('probabilities of %i classes', (classes) => {
  const random = createRandom(classes)
  const rows = 500
  const scores = Float64Array.from({ length: rows * classes }, () => normal(random) * 10 ** random.below(4))
  const memory = both(
    (memory) => new Float64Array(memory, 0, scores.length).set(scores),
    (kernel) => kernel.refreshProbabilities(0, 1 << 20, rows * 8, classes),
  )
  const found = new Float32Array(memory, 1 << 20, scores.length)
  for (let row = 0; row < rows; row++) {
    const own = Array.from({ length: classes }, (_, k) => scores[k * rows + row]!)
    const sum = own.reduce((total, score) => total + Math.exp(score - Math.max(...own)), 0)
    for (const [k, score] of own.entries())
      expect(found[k * rows + row]).toBeCloseTo(Math.exp(score - Math.max(...own)) / sum, 6)
  }
})

test.each(randoms)('gradients, sums, siblings, splits and partitions (%i)', (seed) => {
  const random = createRandom(seed)
  // Over eight features and some; more rows than a block, and no multiple of four.
  const [rows, stride] = [9001, 12]
  const at = { probabilities: 32_768, labels: 81_920, gradients: 98_304, bins: 196_608, columns: 327_680 }
  const lists = { rows: 458_752, spare: 524_288, features: 589_824, counts: 590_336, scores: 655_360 }
  const [whole, part, split, block] = [1 << 20, 2 << 20, 3 << 20, (3 << 20) + 4096]
  const features = stride - 1
  const binCounts = Array.from({ length: stride }, () => 1 + random.below(255))
  const withGaps = seed !== 2
  const fill = (memory: ArrayBuffer) => {
    const draws = createRandom(100 + seed)
    const probabilities = new Float32Array(memory, at.probabilities, rows)
    const labels = new Uint8Array(memory, at.labels, rows)
    const bins = new Uint8Array(memory)
    for (let row = 0; row < rows; row++) {
      // Some that are certain: a hessian of nothing, and a gradient of exactly one.
      probabilities[row] = row % 97 === 0 ? row % 2 : draws.float()
      labels[row] = draws.below(3)
      for (let feature = 0; feature < features; feature++) {
        const bin = withGaps && draws.float() < 0.1 ? 0 : 1 + draws.below(binCounts[feature]!)
        bins[at.bins + row * stride + feature] = bin
        bins[at.columns + feature * rows + row] = bin
      }
    }
    new Uint32Array(memory, lists.features, features).set(Array.from({ length: features }, (_, f) => f))
    new Uint32Array(memory, lists.counts, stride).set(binCounts)
  }
  const memory = both(fill, (kernel) => {
    kernel.numberRows(lists.rows, rows)
    kernel.fillGradients(at.probabilities, at.labels, 1, rows, at.gradients)
    kernel.fillHistogram(lists.rows, rows, at.bins, stride, at.gradients, whole, block)
    const sums = new BigInt64Array(kernel.memory, whole, (2 * featureBytes) / 8)
    for (let bin = 0; bin < 256; bin++) {
      new BigInt64Array(kernel.memory, split, 2)[0]! += sums[bin * 2]!
      new BigInt64Array(kernel.memory, split, 2)[1]! += sums[bin * 2 + 1]!
    }
    kernel.findSplit(whole, lists.features, features, lists.counts, split, 2 ** 13, 2 ** 3, 20)
    const [feature, cut, missingLeft] = new Int32Array(kernel.memory, split + 48, 3)
    const column = at.columns + feature! * rows
    const offset = missingLeft === 1 ? 0 : 1
    const left = kernel.partitionRows(lists.rows, rows, lists.spare, column, offset, cut! - offset)
    kernel.fillHistogram(lists.rows, left, at.bins, stride, at.gradients, part, block)
    kernel.subtractHistogram(whole, part, stride * featureBytes)
    kernel.addToScores(lists.rows + left * 4, rows - left, lists.scores, 0.1 * seed)
    new Int32Array(kernel.memory, split + splitBytes, 1)[0] = left
    // Where rows were brought together to be counted is of no account.
    new Uint8Array(kernel.memory, block, blockBytes(stride)).fill(0)
  })

  // Counted from the probabilities by other means: exact, and the two children are the whole.
  const probabilities = new Float32Array(memory, at.probabilities, rows)
  const labels = new Uint8Array(memory, at.labels, rows)
  const steps = (value: number, bits: number) => {
    const [below, rest] = [Math.floor(value * 2 ** bits), (value * 2 ** bits) % 1]
    return BigInt(rest === 0.5 ? below + (below % 2) : rest > 0.5 ? below + 1 : below)
  }
  const [feature] = new Int32Array(memory, split + 48, 1)
  const left = new Int32Array(memory, split + splitBytes, 1)[0]!
  expect(feature).toBeGreaterThanOrEqual(0)
  expect(left).toBeGreaterThanOrEqual(20)
  const order = new Uint32Array(memory, lists.rows, rows)
  for (const [from, to, histogram] of [
    [0, left, part],
    [left, rows, whole],
  ] as const) {
    const expected = new BigInt64Array(512)
    for (const row of order.subarray(from, to)) {
      const bin = new Uint8Array(memory)[at.bins + row * stride + feature!]!
      const p = probabilities[row]!
      expected[bin * 2]! += steps(p, gradientBits) - (labels[row] === 1 ? 2n ** BigInt(gradientBits) : 0n)
      const hessian = steps(Math.fround(p * Math.fround(1 - p)), hessianBits)
      expected[bin * 2 + 1]! += hessian * 2n ** BigInt(countBits) + 1n
    }
    expect(new BigInt64Array(memory, histogram + feature! * featureBytes, 512)).toEqual(expected)
  }
  expect(Array.from(order.slice(0, left))).toEqual(Array.from(order.slice(0, left)).sort((a, b) => a - b))
  expect(Array.from(order.slice(left))).toEqual(Array.from(order.slice(left)).sort((a, b) => a - b))
})

test('a bin that gets every row, each with the highest gradient and hessian, overflows nowhere', () => {
  const [rows, stride] = [9000, 4]
  const at = { probabilities: 32_768, labels: 81_920, gradients: 98_304, bins: 196_608, rows: 458_752 }
  const [histogram, block] = [1 << 20, 2 << 20]
  for (const [p, gradient] of [
    [1, 65_536n],
    [0.5, 32_768n],
    [0, 0n],
  ] as const) {
    const memory = both(
      (memory) => {
        new Float32Array(memory, at.probabilities, rows).fill(p)
      },
      (kernel) => {
        kernel.numberRows(at.rows, rows)
        kernel.fillGradients(at.probabilities, at.labels, 1, rows, at.gradients)
        kernel.fillHistogram(at.rows, rows, at.bins, stride, at.gradients, histogram, block)
      },
    )
    const sums = new BigInt64Array(memory, histogram, 2)
    expect(sums[0]).toBe(gradient * BigInt(rows))
    expect(sums[1]).toBe(BigInt(p * (1 - p) * 2 ** hessianBits * rows) * 2n ** 24n + BigInt(rows))
  }
})

function normal(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random.float())) * Math.cos(2 * Math.PI * random.float())
}
