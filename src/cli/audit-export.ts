import { listHistory } from '../billing/audit/export-history.ts'
import { installationId } from '../billing/audit/history-rows.ts'
import type { Foundation } from '../foundation.ts'
import { appendChain, ChainBroken, ChainMoved, readChain } from '../platform/chained-file.ts'
import { oneAtATime } from '../platform/database/one-at-a-time.ts'
import { renderInstant } from '../platform/time.ts'
import { CommandFailed, parseFlags, print, printJson, UsageError, withFoundation } from './command.ts'
import { openProgress } from './progress.ts'

/** Appends what is new to the file. One whose last run was cut off is refused, because nobody knows what it lacks. */
export async function exportHistoryCommand(args: string[]): Promise<number> {
  const { values, positionals } = parseFlags(args, { json: { type: 'boolean', default: false } })
  const [path, ...more] = positionals
  if (path === undefined || more.length > 0) throw new UsageError('audit export takes one file.')
  return withFoundation('audit', async (app) => {
    const { sessionUrl } = app.database
    // Two that append after the same line leave a file that nobody believes any more.
    const done = await oneAtATime(sessionUrl, 'audit export', () => exportHistory(app, path))
    if (!done)
      throw new CommandFailed('Another export of this installation is running; this one changed nothing.')
    if (values.json) printJson(done)
    else
      print(
        `${done.exported} facts exported, ${done.lines} lines in all, up to ${done.at}; hash ${done.hash.slice(0, 16)}.`,
      )
    return 0
  })
}

type Exported = { exported: number; lines: number; hash: string; at: string }

async function exportHistory(app: Foundation, path: string): Promise<Exported> {
  const installation = await installationId(app.billing.db)
  const known = new Set<string>()
  let owner: unknown
  const before = await readChain(path, (line) => {
    if (typeof line['key'] === 'string') known.add(line['key'])
    if (line['kind'] === 'begin') owner = line['installation']
  }).catch(explainBroken)
  if (!before.closed)
    throw new CommandFailed(
      `The last export into this file was cut off at line ${before.lines + 1}; export into a new file and keep both.`,
    )
  if (owner !== undefined && owner !== installation)
    throw new CommandFailed('This file belongs to another installation; export into a file of its own.')

  const progress = openProgress('Facts exported', null)
  const at = app.clock()
  let exported = 0
  async function* lines() {
    if (before.lines === 0) yield { kind: 'begin', format: 1, installation }
    for await (const line of listHistory(app.billing.db, (key) => known.has(key))) {
      progress.show(++exported)
      yield line
    }
  }
  const end = await appendChain(path, before, lines(), { at: at.toISOString() }).catch(explainBroken)
  progress.end()
  return { exported, lines: end.lines, hash: end.hash, at: renderInstant(at, app.config.timeZone) }
}

/** Whatever is wrong with the file, in one sentence; its path is the operator's own. */
export function explainBroken(error: unknown): never {
  if (error instanceof ChainBroken || error instanceof ChainMoved) throw new CommandFailed(error.message)
  const { code, syscall } = error as NodeJS.ErrnoException
  if (syscall !== undefined) {
    const doing = syscall === 'read' ? 'read' : 'written'
    throw new CommandFailed(`The file cannot be ${doing} (${code}); name another, or put its place right.`)
  }
  throw error
}
