import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
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

/** The machine's own Chromium, or the one that npm brought. */
export async function openBrowser(): Promise<OpenedBrowser> {
  if (whyNoBrowser !== null) throw new Error(whyNoBrowser)
  // The packed one unpacks itself under fixed names, so that two test runs need two folders.
  const folder = mkdtempSync(join(tmpdir(), 'rankledger-browser-'))
  const browser = await chromium.launch(
    own === undefined ? { ...(await unpackChromium(folder)), args } : { executablePath: own, args },
  )
  return {
    browser,
    async close() {
      await browser.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
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
    const env = process.env as Record<string, string>
    return { executablePath, env: { ...env, FONTCONFIG_PATH: fonts, LD_LIBRARY_PATH: libraries } }
  } finally {
    if (before === undefined) delete process.env['TMPDIR']
    else process.env['TMPDIR'] = before
  }
}
