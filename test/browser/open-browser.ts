import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Browser, chromium } from 'playwright-core'

export type OpenedBrowser = { readonly browser: Browser; close(): Promise<void> }

const chromes = ['Google Chrome', 'Chromium', 'Microsoft Edge']
const installed = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/usr/bin/google-chrome-stable',
  '/snap/bin/chromium',
  ...chromes.map((name) => `/Applications/${name}.app/Contents/MacOS/${name}`),
]
const args = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

const own = [process.env['CHROMIUM'] ?? '', ...installed].find((path) => existsSync(path))

/** Why no page can be opened here, or null. The one that npm brings runs on Linux and x64 only. */
export const whyNoBrowser =
  own !== undefined || (process.platform === 'linux' && process.arch === 'x64')
    ? null
    : 'No Chromium is installed here: install one, or name its program by CHROMIUM=/path/to/chromium.'

/** The machine's own Chromium, or the one that npm brought: unpacked in a folder that others use too, or in one of its own. */
export async function openBrowser(shared?: string): Promise<OpenedBrowser> {
  if (whyNoBrowser !== null) throw new Error(whyNoBrowser)
  // The packed one unpacks itself under fixed names, so that two test runs need two folders.
  const folder = shared ?? mkdtempSync(join(tmpdir(), 'rankledger-browser-'))
  const browser = await chromium.launch(
    own === undefined ? { ...(await unpackOnce(folder)), args } : { executablePath: own, args },
  )
  return {
    browser,
    async close() {
      await browser.close()
      if (shared === undefined) rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Whoever comes first unpacks it, which takes seconds of a processor; the others wait. */
async function unpackOnce(folder: string): Promise<Unpacked> {
  const done = join(folder, 'done.json')
  try {
    mkdirSync(join(folder, 'begun'))
  } catch {
    while (!existsSync(done)) await sleep(50)
    const found: Unpacked | { failure: string } = JSON.parse(readFileSync(done, 'utf8'))
    if ('failure' in found) throw new Error(found.failure)
    return withEnvironment(found)
  }
  try {
    const unpacked = await unpackChromium(folder)
    writeAtOnce(done, unpacked)
    return withEnvironment(unpacked)
  } catch (error) {
    writeAtOnce(done, { failure: String(error) })
    throw error
  }
}

function writeAtOnce(path: string, value: unknown): void {
  writeFileSync(`${path}.part`, JSON.stringify(value))
  renameSync(`${path}.part`, path)
}

function withEnvironment({ executablePath, env }: Unpacked): Unpacked {
  return { executablePath, env: { ...(process.env as Record<string, string>), ...env } }
}

type Unpacked = { readonly executablePath: string; readonly env: Record<string, string> }

/** With what it brings for a bare machine: libraries, and a font. */
async function unpackChromium(folder: string): Promise<Unpacked> {
  const before = process.env['TMPDIR']
  process.env['TMPDIR'] = folder
  // With this it brings the libraries.
  process.env['AWS_EXECUTION_ENV'] ??= 'AWS_Lambda_nodejs22.x'
  try {
    const packed = await import('@sparticuz/chromium')
    const executablePath = await packed.default.executablePath()
    // Its own list of fonts names a fixed folder; where it finds none, a page has no text at all.
    const fonts = join(folder, 'fonts')
    const folders = [fonts, '/usr/share/fonts'].map((one) => `<dir>${one}</dir>`).join('')
    writeFileSync(
      join(fonts, 'fonts.conf'),
      `<?xml version="1.0"?><fontconfig>${folders}<cachedir>${fonts}/cache</cachedir></fontconfig>`,
    )
    const libraries = join(folder, 'al2023', 'lib')
    return { executablePath, env: { FONTCONFIG_PATH: fonts, LD_LIBRARY_PATH: libraries } }
  } finally {
    if (before === undefined) delete process.env['TMPDIR']
    else process.env['TMPDIR'] = before
  }
}
