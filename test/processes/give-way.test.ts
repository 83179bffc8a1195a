import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { getPriority, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'

const main = fileURLToPath(new URL('../../dist/main.js', import.meta.url))
let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'rankledger-give-way-'))
  chmodSync(folder, 0o755)
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const isLinux = process.platform === 'linux'

test.skipIf(!isLinux)('who makes more way already goes on doing so', () => {
  const module = fileURLToPath(new URL('../../src/platform/give-way.ts', import.meta.url))
  const script = `import { getPriority } from 'node:os'
    import { giveWay } from ${JSON.stringify(module)}
    giveWay('somebody')
    console.log(getPriority())`
  const args = ['-n', '15', process.execPath, '--import', 'tsx', '--input-type=module', '-e', script]
  expect(execFileSync('nice', args, { encoding: 'utf8' }).trim()).toBe(
    String(Math.min(19, getPriority() + 15)),
  )
})

test.skipIf(!isLinux)(
  'an import that has to start the database makes way itself, and the database does not',
  async () => {
    const environment = { PATH: process.env['PATH'] ?? '', RANKLEDGER_DATA: folder }
    execFileSync(process.execPath, [main, 'migrate'], { env: environment, stdio: 'ignore' })
    const args = [main, 'import', 'ranks', '-', '--workspace', 'ws']
    const child = spawn(process.execPath, args, { env: environment, stdio: ['pipe', 'ignore', 'ignore'] })
    try {
      await expect.poll(() => getPriority(child.pid)).toBe(Math.max(10, getPriority()))
      const { pgdata } = JSON.parse(readFileSync(join(folder, 'postgres.json'), 'utf8'))
      const pidFile = resolve(folder, pgdata, 'postmaster.pid')
      await expect.poll(() => existsSync(pidFile), { timeout: 10_000 }).toBe(true)
      expect(getPriority(Number.parseInt(readFileSync(pidFile, 'utf8'), 10))).toBe(getPriority())
    } finally {
      child.stdin.end()
      await once(child, 'exit')
    }
  },
)
