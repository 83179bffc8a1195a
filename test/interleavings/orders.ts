import type { SideName } from './stepper.ts'

/** How finely a side is cut: at its lock, commit and provider points, or at every statement. */
export type Grain = 'cuts' | 'statements'

/** Whose turn it is, one after another, and for how many steps. What is left afterwards runs to its end, A first. */
export type Order = { readonly grain: Grain; readonly turns: readonly Turn[] }

export type Turn = { readonly side: SideName; readonly steps: number }

/** Every way to mix two sides of so many steps: (a + b)! / (a! b!) of them. */
export function allOrders(a: number, b: number): Order[] {
  const mix = (restA: number, restB: number): SideName[][] => {
    if (restA === 0) return [Array<SideName>(restB).fill('B')]
    if (restB === 0) return [Array<SideName>(restA).fill('A')]
    return [
      ...mix(restA - 1, restB).map((rest): SideName[] => ['A', ...rest]),
      ...mix(restA, restB - 1).map((rest): SideName[] => ['B', ...rest]),
    ]
  }
  return mix(a, b).map((letters) => ({ grain: 'cuts', turns: toTurns(letters) }))
}

/** Every schedule of statements with two switches: one side is left once, and goes on when the other is over. */
export function twoSwitches(a: number, b: number): Order[] {
  const starting = (first: SideName, second: SideName, steps: number) =>
    upTo(steps).map((i) => byStatements([first, i], [second, all], [first, all]))
  return [...starting('A', 'B', a), ...starting('B', 'A', b)]
}

/** The same with one more: both sides are left once, each after any of its statements. */
export function threeSwitches(a: number, b: number): Order[] {
  const starting = (first: SideName, second: SideName, firstSteps: number, secondSteps: number) =>
    upTo(firstSteps).flatMap((i) =>
      upTo(secondSteps).map((j) => byStatements([first, i], [second, j], [first, all], [second, all])),
    )
  return [...starting('A', 'B', a, b), ...starting('B', 'A', b, a)]
}

const all = Number.POSITIVE_INFINITY

function byStatements(...turns: [SideName, number][]): Order {
  return { grain: 'statements', turns: turns.map(([side, steps]) => ({ side, steps })) }
}

function upTo(steps: number): number[] {
  return Array.from({ length: steps }, (_, at) => at + 1)
}

function toTurns(letters: readonly SideName[]): Turn[] {
  const turns: { side: SideName; steps: number }[] = []
  for (const side of letters) {
    const last = turns.at(-1)
    if (last?.side === side) last.steps++
    else turns.push({ side, steps: 1 })
  }
  return turns
}

/** `A2B1A*`: two steps of A, one of B, the rest of A. */
export function renderOrder({ turns }: Order): string {
  return turns.map(({ side, steps }) => `${side}${Number.isFinite(steps) ? steps : '*'}`).join('')
}

export function readOrder(text: string, grain: Grain): Order {
  if (!/^(?:[AB](?:\d+|\*))+$/.test(text)) throw new Error(`${text} is no order; one looks like A2B1A*.`)
  const turns = [...text.matchAll(/([AB])(\d+|\*)/g)].map(([, side, steps]) => ({
    side: side as SideName,
    steps: steps === '*' ? Number.POSITIVE_INFINITY : Number(steps),
  }))
  return { grain, turns }
}

/** So many of them, drawn by a seed: the same ones every time. */
export function sample<T>(items: readonly T[], count: number, seed: number): T[] {
  const rest = [...items]
  let state = seed
  const drawn: T[] = []
  while (drawn.length < count && rest.length > 0) {
    state = (state * 1_664_525 + 1_013_904_223) % 4_294_967_296
    drawn.push(...rest.splice(Math.floor((state / 4_294_967_296) * rest.length), 1))
  }
  return drawn
}
