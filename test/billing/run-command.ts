import { vi } from 'vitest'
import { type Command, CommandFailed, UsageError } from '../../src/cli/command.ts'

export type CommandResult = { code: number; output: string; error: string }

/** Runs an operator command as the executable does, in this process: its environment, its two outputs, its exit code. */
export async function runCommand(
  command: Command,
  args: readonly string[],
  environment: Record<string, string>,
): Promise<CommandResult> {
  let [output, error] = ['', '']
  const taking = (take: (text: string) => void) => (chunk: string | Uint8Array) => {
    take(typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString())
    return true
  }
  const [out, err] = [process.stdout.write, process.stderr.write]
  process.stdout.write = taking((text) => {
    output += text
  }) as typeof out
  process.stderr.write = taking((text) => {
    error += text
  }) as typeof err
  // The test runner has a MODE of its own.
  for (const [name, value] of Object.entries({ MODE: '', ...environment })) vi.stubEnv(name, value)
  try {
    return { code: await command.run([...args]), output, error }
  } catch (failure) {
    if (!(failure instanceof UsageError || failure instanceof CommandFailed)) throw failure
    return { code: failure instanceof UsageError ? 2 : 1, output, error: error + failure.message }
  } finally {
    vi.unstubAllEnvs()
    process.stdout.write = out
    process.stderr.write = err
  }
}
