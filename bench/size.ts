/** `--small`: the same measurements at sizes that take seconds, to see that they work; their figures say little. */
const isSmall = process.env['BENCH_SMALL'] === '1'

export function sized<T>(full: T, small: T): T {
  return isSmall ? small : full
}
