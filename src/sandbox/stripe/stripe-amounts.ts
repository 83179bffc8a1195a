// The book counts in ISO's minor units; Stripe has its own idea of some.
const hundredths: Readonly<Record<string, bigint>> = { ISK: 100n }
const whole: Readonly<Record<string, bigint>> = { MGA: 100n }

/** What Stripe calls an amount of the book. */
export function toWire(minor: bigint, currency: string): number {
  return Number((minor * (hundredths[currency] ?? 1n)) / (whole[currency] ?? 1n))
}

/** Undefined: there is no such amount of this currency. */
export function fromWire(amount: number, currency: string): bigint | undefined {
  const more = hundredths[currency] ?? 1n
  const given = BigInt(amount)
  if (given % more !== 0n) return undefined
  return (given / more) * (whole[currency] ?? 1n)
}

const threeDigits: ReadonlySet<string> = new Set(['BHD', 'JOD', 'KWD', 'OMR', 'TND'])

/** Three-decimal currencies end in a zero. */
export function isWhole(amount: number, currency: string): boolean {
  return !threeDigits.has(currency) || amount % 10 === 0
}
