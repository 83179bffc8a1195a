import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'

const checkout = fileURLToPath(new URL('../..', import.meta.url))
let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'rankledger-install-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

test('without development packages nothing is built, nothing fails, and npm start says what to do', () => {
  copyFileSync(join(checkout, 'package.json'), join(folder, 'package.json'))
  mkdirSync(join(folder, 'node_modules'))
  const run = (...args: string[]) => spawnSync('npm', args, { cwd: folder, encoding: 'utf8' })
  const prepared = run('run', '--silent', 'prepare')
  expect([prepared.status, prepared.stdout]).toEqual([0, ''])
  const started = run('start', '--silent')
  expect(started.status).toBe(1)
  expect(started.stderr.split('\n').filter((line) => line && !line.startsWith('npm warn'))).toEqual([
    expect.stringMatching(/^Rankledger is not built here: run npm ci and npm run build/),
  ])
})

test('the packed release, with production packages alone, subscribes and prints an invoice', async () => {
  execFileSync('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', folder], {
    cwd: checkout,
  })
  const modules = join(folder, 'app', 'node_modules')
  mkdirSync(modules, { recursive: true })
  execFileSync('sh', [
    '-c',
    `tar -xzf ${folder}/rankledger-*.tgz -C ${modules} && mv ${modules}/package ${modules}/rankledger`,
  ])
  linkProductionPackages(modules)

  const service = spawn(process.execPath, [join(modules, 'rankledger', 'dist', 'main.js'), 'serve'], {
    cwd: join(folder, 'app'),
    env: { PATH: process.env['PATH'], HOME: folder, RANKLEDGER_DATA: join(folder, 'data'), PORT: '0' },
  })
  try {
    let said = ''
    for (const output of [service.stdout, service.stderr]) {
      output.on('data', (chunk) => {
        said += chunk
      })
    }
    await expect.poll(() => said).toContain('"event":"service.started"')
    const port = /"port":(\d+)/.exec(said)![1]!
    const used = spawnSync(
      process.execPath,
      [join(checkout, 'tools', 'use-service.mjs'), port, join(folder, 'data', 'token')],
      { encoding: 'utf8' },
    )
    expect([used.stderr, used.status]).toEqual(['', 0])
    expect(used.stdout).toMatch(/^subscribed, and printed an invoice of \d{4,} bytes/)
  } finally {
    const ended = new Promise((resolve) => service.on('exit', resolve))
    service.kill('SIGTERM')
    await ended
  }
})

/** What `npm install` of the release would bring: the locked packages that are not for development. */
function linkProductionPackages(modules: string): void {
  const lock = JSON.parse(readFileSync(join(checkout, 'package-lock.json'), 'utf8'))
  for (const [path, entry] of Object.entries<{ dev?: boolean; optional?: boolean; link?: boolean }>(
    lock.packages,
  )) {
    const name = /^node_modules\/((?:@[^/]+\/)?[^/]+)$/.exec(path)?.[1]
    if (!name || entry.dev || entry.link) continue
    mkdirSync(dirname(join(modules, name)), { recursive: true })
    symlinkSync(join(checkout, 'node_modules', name), join(modules, name))
  }
}
