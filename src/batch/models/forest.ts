/**
 * Trees in flat arrays. A child, or a root, that is negative is the leaf ~child. Children stand after their
 * parent. Thresholds are raw feature values: value ≤ threshold goes left.
 */
export type Forest = {
  roots: Int32Array
  feature: Uint16Array
  threshold: Float32Array
  left: Int32Array
  right: Int32Array
  missingLeft: Uint8Array
  leaves: Float64Array
}

/** The child a row of values goes on to from a branch. */
export function walk(
  { feature, threshold, left, right, missingLeft }: Forest,
  node: number,
  values: Float32Array,
) {
  const value = values[feature[node]!]!
  const goesLeft = missingLeft[node] === 1 ? !(value > threshold[node]!) : value <= threshold[node]!
  return goesLeft ? left[node]! : right[node]!
}

/**
 * Adds to each row of a block, for class t modulo classes, `share` times the leaf the row reaches in tree t.
 * Rows stand one after the other, so the jumps between features stay within a few cache lines.
 */
export function addForest(
  forest: Forest,
  block: Float32Array,
  classes: number,
  share: number,
  scores: Float64Array,
) {
  const { roots, feature, threshold, left, right, missingLeft, leaves } = forest
  const rows = scores.length / classes
  const features = block.length / rows
  for (let tree = 0; tree < roots.length; tree++) {
    const root = roots[tree]!
    let at = tree % classes
    for (let start = 0; start < block.length; start += features, at += classes) {
      let node = root
      while (node >= 0) {
        const value = block[start + feature[node]!]!
        const goesLeft = missingLeft[node] === 1 ? !(value > threshold[node]!) : value <= threshold[node]!
        node = goesLeft ? left[node]! : right[node]!
      }
      scores[at]! += share * leaves[~node]!
    }
  }
}
