import type { Kernel } from './kernel.ts'

/**
 * The kernel in plain TypeScript, byte for byte what kernel.wat does. It trains where WebAssembly is not to be had, and
 * it is what the tests hold the other one against. Sums of 64 bits are kept in two halves with a carry.
 */
export function openPlainKernel(bytes: number): Kernel {
  const memory = new ArrayBuffer(Math.ceil(bytes / 64) * 64)
  const u8 = new Uint8Array(memory)
  const u32 = new Uint32Array(memory)
  const i32 = new Int32Array(memory)
  const f32 = new Float32Array(memory)
  const f64 = new Float64Array(memory)

  return {
    memory,

    assignBins(valuesAt, count, edgesAt, edges, rowBinAt, stride, columnAt) {
      const values = f32.subarray(valuesAt / 4, valuesAt / 4 + count)
      const sorted = f32.subarray(edgesAt / 4, edgesAt / 4 + edges)
      for (let row = 0; row < count; row++) {
        const value = values[row]!
        const bin = Number.isNaN(value) ? 0 : edgesBelow(sorted, value) + 1
        u8[rowBinAt + row * stride] = bin
        u8[columnAt + row] = bin
      }
    },

    refreshProbabilities(scoresAt, probabilitiesAt, classBytes, classes) {
      const step = classBytes / 8
      for (let row = 0; row < step; row++) {
        const from = scoresAt / 8 + row
        const to = probabilitiesAt / 8 + row
        let highest = f64[from]!
        for (let k = 1; k < classes; k++) if (f64[from + k * step]! > highest) highest = f64[from + k * step]!
        let sum = 0
        for (let k = 0; k < classes; k++) {
          const exponential = expUpToZero(f64[from + k * step]! - highest)
          f64[to + k * step] = exponential
          sum += exponential
        }
        const share = 1 / sum
        for (let k = 0; k < classes; k++) f64[to + k * step]! *= share
      }
    },

    fillGradients(probabilitiesAt, labelsAt, label, count, gradientSteps, hessianSteps, gradientsAt) {
      for (let row = 0; row < count; row++) {
        const p = f64[probabilitiesAt / 8 + row]!
        const gradient = toInteger((p - (u8[labelsAt + row] === label ? 1 : 0)) * gradientSteps)
        const hessian = toInteger(p * (1 - p) * hessianSteps)
        const at = gradientsAt / 4 + row * 4
        u32[at] = gradient
        u32[at + 1] = Math.floor(gradient / 2 ** 32)
        u32[at + 2] = (hessian % 256) * 2 ** 24 + 1
        u32[at + 3] = Math.floor(hessian / 256)
      }
    },

    fillHistogram(rowsAt, count, binsAt, stride, gradientsAt, histogramAt) {
      u8.fill(0, histogramAt, histogramAt + stride * 4160)
      for (let i = rowsAt / 4; i < rowsAt / 4 + count; i++) {
        const row = u32[i]!
        const from = gradientsAt / 4 + row * 4
        for (let feature = 0; feature < stride; feature++) {
          const to = histogramAt / 4 + feature * 1040 + u8[binsAt + row * stride + feature]! * 4
          addHalves(u32, to, from)
          addHalves(u32, to + 2, from + 2)
        }
      }
    },

    subtractHistogram(fromAt, otherAt, bytes) {
      for (let at = 0; at < bytes / 4; at += 2) subtractHalves(u32, fromAt / 4 + at, otherAt / 4 + at)
    },

    findSplit(histogramAt, featuresAt, featureCount, binCountsAt, splitAt, l2, leastHessian, leastRows) {
      const split = splitAt / 4
      const gradient = i32[split + 1]! * 2 ** 32 + u32[split]!
      const hessian = u32[split + 3]! * 256 + (u32[split + 2]! >>> 24)
      const rows = u32[split + 2]! & 0xffffff
      let bestTop = gradient * gradient
      let bestBottom = hessian + l2
      i32[split + 12] = -1
      const sums = new Uint32Array(4)
      const signed = new Int32Array(sums.buffer)
      for (let i = featuresAt / 4; i < featuresAt / 4 + featureCount; i++) {
        const feature = u32[i]!
        const missing = histogramAt / 4 + feature * 1040
        const bins = u32[binCountsAt / 4 + feature]!
        const hasMissing = u32[missing + 2] !== 0 || u32[missing + 3] !== 0
        for (let missingLeft = 0; missingLeft <= (hasMissing ? 1 : 0); missingLeft++) {
          if (missingLeft === 1) sums.set(u32.subarray(missing, missing + 4))
          else sums.fill(0)
          for (let cut = 1; cut <= bins; cut++) {
            const bin = u32.subarray(missing + cut * 4, missing + cut * 4 + 4)
            addHalvesFrom(sums, 0, bin[0]!, bin[1]!)
            addHalvesFrom(sums, 2, bin[2]!, bin[3]!)
            const leftRows = sums[2]! & 0xffffff
            if (leftRows < leastRows) continue
            if (rows - leftRows < leastRows) break
            const leftHessian = sums[3]! * 256 + (sums[2]! >>> 24)
            if (leftHessian < leastHessian) continue
            const rightHessian = hessian - leftHessian
            if (rightHessian < leastHessian) break
            const leftGradient = signed[1]! * 2 ** 32 + sums[0]!
            const rightGradient = gradient - leftGradient
            const left = leftHessian + l2
            const right = rightHessian + l2
            const top = leftGradient * leftGradient * right + rightGradient * rightGradient * left
            const bottom = left * right
            if (top * bestBottom <= bestTop * bottom) continue
            bestTop = top
            bestBottom = bottom
            u32.set(sums, split + 8)
            i32[split + 12] = feature
            i32[split + 13] = cut
            i32[split + 14] = hasMissing ? missingLeft : 2 * leftRows > rows ? 1 : 0
          }
        }
      }
      f64[splitAt / 8 + 2] = bestTop
      f64[splitAt / 8 + 3] = bestBottom
    },

    partitionRows(rowsAt, count, spareAt, columnAt, offset, limit) {
      const first = rowsAt / 4
      const spare = spareAt / 4
      let left = first
      let right = spare
      for (let i = first; i < first + count; i++) {
        const row = u32[i]!
        const goesLeft = (u8[columnAt + row]! - offset) >>> 0 <= limit
        u32[left] = row
        u32[right] = row
        if (goesLeft) left++
        else right++
      }
      u32.copyWithin(left, spare, right)
      return left - first
    },

    addToScores(rowsAt, count, scoresAt, value) {
      for (let i = rowsAt / 4; i < rowsAt / 4 + count; i++) f64[scoresAt / 8 + u32[i]!]! += value
    },
  }
}

function edgesBelow(edges: Float32Array, value: number): number {
  let base = 0
  for (let length = edges.length; length > 1; ) {
    const half = length >>> 1
    if (edges[base + half - 1]! < value) base += half
    length -= half
  }
  return base
}

/** Adding this rounds to the nearest integer, ties to the even one. */
const rounder = 1.5 * 2 ** 52

function toInteger(value: number): number {
  // An integer is needed, so minus zero has to become zero.
  return value + rounder - rounder + 0
}

const powersOfTwo = Float64Array.from({ length: 1024 }, (_, exponent) => 2 ** -exponent)

/** Only additions and multiplications, so that every machine and every version of V8 gives the same bits. */
function expUpToZero(power: number): number {
  const x = power > -700 ? power : -700
  const k = x * Math.LOG2E + rounder - rounder
  const r = x - k * 0.6931471803691238 - k * 1.9082149292705877e-10
  const r2 = r * r
  const r4 = r2 * r2
  const low = quad(r, r2, 1, 1, 0.5, 0.16666666666666666)
  const middle = quad(
    r,
    r2,
    0.041666666666666664,
    0.008333333333333333,
    0.001388888888888889,
    0.0001984126984126984,
  )
  const high = quad(
    r,
    r2,
    0.0000248015873015873,
    0.0000027557319223985893,
    2.755731922398589e-7,
    2.505210838544172e-8,
  )
  return (low + middle * r4 + high * (r4 * r4)) * powersOfTwo[-k]!
}

/** (a + b r) + (c + d r) r² */
function quad(r: number, r2: number, a: number, b: number, c: number, d: number): number {
  return a + b * r + (c + d * r) * r2
}

function addHalves(words: Uint32Array, to: number, from: number): void {
  addHalvesFrom(words, to, words[from]!, words[from + 1]!)
}

function addHalvesFrom(words: Uint32Array, to: number, low: number, high: number): void {
  const sum = words[to]! + low
  words[to] = sum
  words[to + 1] = words[to + 1]! + high + (sum >= 2 ** 32 ? 1 : 0)
}

function subtractHalves(words: Uint32Array, to: number, from: number): void {
  const difference = words[to]! - words[from]!
  words[to] = difference
  words[to + 1] = words[to + 1]! - words[from + 1]! - (difference < 0 ? 1 : 0)
}
