import { expect, test } from 'vitest'
import { UsageError } from '../src/cli/command.ts'
import { commands } from '../src/cli/commands.ts'
import { runCommand } from './processes/service-process.ts'

/** Every way to call a command, as its usage tells: the words that name it, without what stands for a value. */
const calls = (
  await Promise.all(
    Object.entries(commands).map(async ([name, load]) => {
      const [synopsis] = (await load()).usage.split('\n\n')
      return synopsis!
        .split(/\n(?=rankledger )/)
        .map((line) => ({ name, line, words: line.split(/\s+/).slice(2) }))
    }),
  )
).flat()

test.each(calls)('$line', async ({ name, line, words }) => {
  expect(line).toContain('--json')
  const end = words.findIndex((word) => !/^[a-z][a-z-]*$/.test(word))
  const verbs = end === -1 ? words : words.slice(0, end)
  // It takes --json, for what it complains of is the word after it.
  const command = await commands[name]!()
  const refused = await command.run([...verbs, '--json', '--no-such-flag']).catch((error) => error)
  expect(refused).toBeInstanceOf(UsageError)
  expect(refused.message).toContain('--no-such-flag')
})

test('what is called is every command of the list', () => {
  expect(new Set(calls.map(({ name }) => name))).toEqual(new Set(Object.keys(commands)))
  expect(calls.length).toBeGreaterThan(35)
})

test('help is told as JSON too', async () => {
  const all = await runCommand(['help', '--json'], {})
  expect(JSON.parse(all.output).commands.map((one: { command: string }) => one.command)).toEqual(
    Object.keys(commands),
  )
  const one = await runCommand(['help', 'token', '--json'], {})
  expect(JSON.parse(one.output)).toMatchObject({ command: 'token', usage: expect.stringContaining('revoke') })
})
