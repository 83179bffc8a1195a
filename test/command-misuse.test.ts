import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { audit } from '../src/cli/audit.ts'
import { backlog } from '../src/cli/backlog.ts'
import { CommandFailed, UsageError } from '../src/cli/command.ts'
import { db } from '../src/cli/db.ts'
import { openImportFile, openRejects } from '../src/cli/import-file.ts'
import { model } from '../src/cli/model.ts'
import { plan } from '../src/cli/plan.ts'
import { token } from '../src/cli/token.ts'
import { runCommand as runHere } from './billing/run-command.ts'
import { runCommand } from './processes/service-process.ts'

/** Words that every object of JavaScript knows, and that name nothing here. */
const inherited = ['constructor', 'toString', '__proto__']

describe.each([...inherited, 'no-such-thing'])('%s', (word) => {
  test('is no command, and asking for help on it says so', async () => {
    const sentence = `There is no command "${word}".`
    for (const args of [[word], ['help', word], ['help', word, '--json'], [word, '--help']]) {
      const { code, output } = await runCommand(args, {})
      expect({ args, code, output }).toMatchObject({ code: 2, output: expect.stringContaining(sentence) })
    }
  })

  test('is no verb of a command', async () => {
    for (const [command, args] of [
      [audit, [word]],
      [model, [word, 'mdl_1n54gygp40p8q9pr2z709axbt5']],
    ] as const)
      await expect(command.run([...args])).rejects.toBeInstanceOf(UsageError)
  })
})

/** Nobody listens there: what is refused before a database is asked says so all the same. */
const nowhere = {
  DATABASE_URL: 'postgres://nobody@127.0.0.1:1/nowhere',
  VAULT_KEYS: `1:${Buffer.alloc(32).toString('base64')}`,
  WEBHOOK_SECRETS: `whsec_${Buffer.alloc(32, 1).toString('base64')}`,
}
const price = ['--amount', '9900', '--currency', 'KRW', '--interval', 'month']

test.each([
  ['token', token, ['create', '--scope', 'admin', '--name', 'red \u001b[31m'], /--name takes one line/],
  ['token', token, ['create', '--scope', 'admin', '--name', 'x'.repeat(201)], /at most 200/],
  ...[
    ['--scope', 'admin'],
    ['--workspace', '*'],
    ['--account', 'acme'],
    ['--name', 'ci'],
    ['--name', ''],
    ['--expires', 'P90D'],
  ].map(
    (flag) =>
      [
        'token',
        token,
        ['create', '--print-only', '--json', ...flag],
        /--print-only takes no other option than --json/,
      ] as const,
  ),
  ['plan', plan, ['put', 'pro', '--name', 'Pro\nTotal 0', ...price], /--name takes one line of 1 to 200/],
  ['plan', plan, ['put', 'pro', '--name', 'Pro \u202e0099', ...price], /control characters/],
  ['db', db, ['stop-charging', '--cause', ''], /--cause takes one line of 1 to 200/],
  ['backlog', backlog, ['list', '--all'], /backlog list takes/],
  ['backlog', backlog, ['list', 'inv_1'], /backlog list takes/],
] as const)(
  '%s refuses what the API would, before it changes anything: %#',
  async (_name, command, args, why) => {
    const { code, error } = await runHere(command, args, nowhere)
    expect({ code, error }).toEqual({ code: 2, error: expect.stringMatching(why) })
  },
)

test('a file that cannot be read or written is named, with what to do', async () => {
  const columns = { known: ['keyword'], required: ['keyword'] }
  const sentence = (path: string, doing: string, code: string) =>
    new CommandFailed(`${path} cannot be ${doing} (${code}); name another, or put its place right.`)
  await expect(openImportFile(tmpdir(), columns)).rejects.toEqual(sentence(tmpdir(), 'read', 'EISDIR'))
  const missing = join(tmpdir(), 'no-such-folder', 'rejected.csv')
  await expect(openImportFile(missing, columns)).rejects.toEqual(sentence(missing, 'read', 'ENOENT'))
  const rejection = { line: 1, code: 'day_not_real', raw: 'row' }
  await expect(openRejects(missing).write([rejection])).rejects.toEqual(
    sentence(missing, 'written', 'ENOENT'),
  )
})
