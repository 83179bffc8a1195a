import { countClasses, type Examples } from '../dataset/examples.ts'
import { columnOf, type FeatureName } from '../dataset/features.ts'
import { rowLoss } from './loss.ts'

/**
 * What anybody could say without a model: how often each class came, perhaps told apart by the sign of one figure. A
 * model that does not beat these has learnt nothing worth its name.
 */
export const naiveRules = {
  /** Yesterday's move goes on, or comes back. */
  last_move: 'change_1',
  /** The week's slope goes on, or ends. */
  week_slope: 'slope_7',
  /** What is far from its mean of 28 days returns to it, or does not. */
  distance_from_mean: 'deviation_28',
} as const satisfies Record<string, FeatureName>

export type NaiveRule = keyof typeof naiveRules
export const naiveRuleNames = Object.keys(naiveRules) as NaiveRule[]

/** The signs a rule tells apart, in the order of its shares. A lower place is a better one. */
const signs = ['down', 'level', 'up', 'unknown'] as const

/** Float32 columns carry about seven digits; a change below this is none. */
const level = 1e-6

export function signOf(value: number): number {
  if (Number.isNaN(value)) return 3
  return value < -level ? 0 : value > level ? 2 : 1
}

/** The probabilities of each class: one row of them, or one for each sign. */
export type Shares = number[][]

/** Class shares; by the sign of a rule's figure where a rule is named. Few rows of a sign lean on all rows. */
export function sharesOf(examples: Examples, classes: number, rule?: NaiveRule): Shares {
  const all = countClasses(examples.labels, classes)
  const total = examples.labels.length
  const overall = Array.from(all, (count) => (count + 1) / (total + classes))
  if (!rule) return [overall]
  const column = examples.columns[columnOf[naiveRules[rule]]]!
  const counts = signs.map(() => new Float64Array(classes))
  for (let row = 0; row < total; row++) counts[signOf(column[row]!)]![examples.labels[row]!]!++
  return counts.map((bySign) => {
    const rows = bySign.reduce((sum, count) => sum + count, 0)
    return overall.map((share, label) => (bySign[label]! + share) / (rows + 1))
  })
}

/** The mean log-loss of shares on some rows. */
export function lossOfShares(shares: Shares, examples: Examples, rule?: NaiveRule): number {
  const column = rule && examples.columns[columnOf[naiveRules[rule]]]!
  const losses = shares.map((row) => row.map(rowLoss))
  let sum = 0
  for (let row = 0; row < examples.labels.length; row++)
    sum += losses[column ? signOf(column[row]!) : 0]![examples.labels[row]!]!
  return sum / examples.labels.length
}

/** The rows on which a keyword was visible at both ends. */
export function rankedOnly(examples: Examples): Examples {
  const { ranked } = examples
  if (!ranked) return examples
  const isRanked = (_: number, row: number) => ranked[row] === 1
  return {
    columns: examples.columns.map((column) => column.filter(isRanked)),
    labels: examples.labels.filter(isRanked),
    days: examples.days.filter(isRanked),
    groups: examples.groups.filter(isRanked),
  }
}

/** How the rivals of a model do on later rows, having learnt from earlier ones. */
export type RivalLosses = { classShares: number; rules: Record<NaiveRule, number>; best: NaiveRule }

export function meetRivals(past: Examples, future: Examples, classes: number): RivalLosses {
  const rules = Object.fromEntries(
    naiveRuleNames.map((rule) => [rule, lossOfShares(sharesOf(past, classes, rule), future, rule)]),
  ) as Record<NaiveRule, number>
  return {
    classShares: lossOfShares(sharesOf(past, classes), future),
    rules,
    best: naiveRuleNames.reduce((best, rule) => (rules[rule] < rules[best] ? rule : best)),
  }
}
