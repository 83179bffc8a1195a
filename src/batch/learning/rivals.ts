import { type Among, countedRows, countRows, type Examples } from '../dataset/examples.ts'
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
export function sharesOf(
  examples: Examples,
  classes: number,
  rule?: NaiveRule,
  among: Among = 'all',
): Shares {
  const counts = signs.map(() => new Float64Array(classes))
  eachRow(examples, rule, among, (sign, label) => {
    counts[sign]![label]!++
  })
  const total = countRows(examples, among)
  const overall = Array.from({ length: classes }, (_, label) => {
    const count = counts.reduce((sum, bySign) => sum + bySign[label]!, 0)
    return (count + 1) / (total + classes)
  })
  if (!rule) return [overall]
  return counts.map((bySign) => {
    const rows = bySign.reduce((sum, count) => sum + count, 0)
    return overall.map((share, label) => (bySign[label]! + share) / (rows + 1))
  })
}

/** The mean log-loss of shares on some rows. */
export function lossOfShares(
  shares: Shares,
  examples: Examples,
  rule?: NaiveRule,
  among: Among = 'all',
): number {
  const losses = shares.map((row) => row.map(rowLoss))
  let sum = 0
  eachRow(examples, rule, among, (sign, label) => {
    sum += losses[sign]![label]!
  })
  return sum / countRows(examples, among)
}

/** Goes over the rows that count; without a rule all are of the first sign. */
function eachRow(
  examples: Examples,
  rule: NaiveRule | undefined,
  among: Among,
  act: (sign: number, label: number) => void,
): void {
  const { columns, labels } = examples
  const column = rule && columns[columnOf[naiveRules[rule]]]!
  const counted = countedRows(examples, among)
  for (let row = 0; row < labels.length; row++) {
    if (counted && counted[row] === 0) continue
    act(column ? signOf(column[row]!) : 0, labels[row]!)
  }
}

/** How the rivals of a model do on later rows, having learnt from earlier ones. */
export type RivalLosses = { classShares: number; rules: Record<NaiveRule, number>; best: NaiveRule }

/** On ranked rows a rival has learnt from ranked rows. */
export function meetRivals(past: Examples, future: Examples, classes: number, among: Among): RivalLosses {
  const lossOf = (rule?: NaiveRule) => lossOfShares(sharesOf(past, classes, rule, among), future, rule, among)
  const rules = Object.fromEntries(naiveRuleNames.map((rule) => [rule, lossOf(rule)])) as Record<
    NaiveRule,
    number
  >
  return {
    classShares: lossOf(),
    rules,
    best: naiveRuleNames.reduce((best, rule) => (rules[rule] < rules[best] ? rule : best)),
  }
}
