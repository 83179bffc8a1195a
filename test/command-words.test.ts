import { describe, expect, test } from 'vitest'
import { audit } from '../src/cli/audit.ts'
import { UsageError } from '../src/cli/command.ts'
import { model } from '../src/cli/model.ts'
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
