import type { Kernel } from './kernel.ts'

/** A gradient is cut into steps of 2^-16, a hessian into steps of 2^-13. */
export const gradientBits = 16
export const hessianBits = 13

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
        const to = probabilitiesAt / 4 + row
        let highest = f64[from]!
        for (let k = 1; k < classes; k++) if (f64[from + k * step]! > highest) highest = f64[from + k * step]!
        let sum = 0
        for (let k = 0; k < classes; k++) {
          const exponential = expUpToZero(float(f64[from + k * step]! - highest))
          f32[to + k * step] = exponential
          sum = float(sum + exponential)
        }
        const share = float(1 / sum)
        for (let k = 0; k < classes; k++) f32[to + k * step]! *= share
      }
    },

    numberRows(rowsAt, count) {
      for (let row = 0; row < Math.ceil(count / 4) * 4; row++) u32[rowsAt / 4 + row] = row
    },

    fillGradients(probabilitiesAt, labelsAt, label, count, gradientsAt) {
      for (let row = 0; row < Math.ceil(count / 4) * 4; row++) {
        const p = f32[probabilitiesAt / 4 + row]!
        const hessian = toInteger(float(float(p * float(1 - p)) * 2 ** hessianBits))
        const gradient =
          toInteger(p * 2 ** gradientBits) + (u8[labelsAt + row] === label ? 0 : 2 ** gradientBits)
        u32[gradientsAt / 4 + row * 2] = hessian * 2 ** 12 + 1
        u32[gradientsAt / 4 + row * 2 + 1] = gradient * 8
      }
    },

    /** Counts every row straight into the sums; they are exact, so the block and the panel would change nothing. */
    fillHistogram(rowsAt, count, binsAt, stride, gradientsAt, histogramAt) {
      u8.fill(0, histogramAt, histogramAt + stride * 4160)
      for (let i = rowsAt / 4; i < rowsAt / 4 + count; i++) {
        const row = u32[i]!
        const low = u32[gradientsAt / 4 + row * 2]!
        const gradient = u32[gradientsAt / 4 + row * 2 + 1]! / 8 - 2 ** gradientBits
        const hessian = low >>> 12
        for (let feature = 0; feature < stride; feature++) {
          const to = histogramAt / 4 + feature * 1040 + u8[binsAt + row * stride + feature]! * 4
          addHalvesFrom(u32, to, gradient >>> 0, gradient < 0 ? 0xffffffff : 0)
          addHalvesFrom(u32, to + 2, (hessian % 256) * 2 ** 24 + 1, hessian >>> 8)
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

/** Adding this to a float rounds it to the nearest integer, ties to the even one. */
const rounder = 1.5 * 2 ** 23

function toInteger(value: number): number {
  return float(value + rounder) - rounder
}

const powersOfTwo = Float32Array.from({ length: 127 }, (_, exponent) => 2 ** -exponent)

const [log2e, lnTwo, lnTwoRest] = [float(Math.LOG2E), 0.693359375, float(-0.00021219444005469057)]
const [third, fourth, fifth, sixth] = [float(1 / 6), float(1 / 24), float(1 / 120), float(1 / 720)]

/** Only additions and multiplications of floats, so that every machine and every version of V8 gives the same bits. */
function expUpToZero(power: number): number {
  const x = power > -87 ? power : -87
  const k = toInteger(float(x * log2e))
  const r = float(float(x - float(k * lnTwo)) - float(k * lnTwoRest))
  const r2 = float(r * r)
  const low = float(float(1 + r) + float(float(0.5 + float(third * r)) * r2))
  const high = float(float(fourth + float(fifth * r)) + float(sixth * r2))
  return float(float(low + float(high * float(r2 * r2))) * powersOfTwo[-k]!)
}

function float(value: number): number {
  return Math.fround(value)
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
