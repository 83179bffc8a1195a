import { writeFileSync } from 'node:fs'
import { cpus } from 'node:os'

/** One promise and whether it was kept. */
export type Check = {
  readonly what: string
  readonly measured: string
  readonly goal: string
  readonly held: boolean
}

/** Prints every check, writes the record if one is wanted, and sets the exit code. */
export function report(
  name: string,
  checks: readonly Check[],
  details: Readonly<Record<string, unknown>>,
  jsonFile: string | undefined,
): void {
  const width = Math.max(...checks.map(({ what }) => what.length))
  for (const { what, measured, goal, held } of checks)
    process.stdout.write(`${held ? 'held  ' : 'BROKEN'}  ${what.padEnd(width)}  ${measured}  (${goal})\n`)
  const held = checks.every((check) => check.held)
  process.stdout.write(`${name}: ${held ? 'every promise held' : 'not every promise held'}\n`)
  if (jsonFile !== undefined) {
    const record = { name, held, node: process.version, cpus: cpus().length, checks, ...details }
    writeFileSync(jsonFile, `${JSON.stringify(record, null, 2)}\n`)
  }
  process.exitCode = held ? 0 : 1
}

/** A check that a count is zero, which most of them are. */
export function none(what: string, count: number, examples: readonly string[] = []): Check {
  const shown = count > 0 && examples.length > 0
  const measured = shown ? `${count}: ${examples.slice(0, 5).join(' | ')}` : String(count)
  return { what, measured, goal: 'none', held: count === 0 }
}

/** A check that a command of the service ended well. */
export function endedWell(what: string, { code, output }: { code: number | null; output: string }): Check {
  const said = output.trim().split('\n').at(-1) ?? ''
  return { what, measured: `exit ${code}: ${said.slice(0, 200)}`, goal: 'exit 0', held: code === 0 }
}
