import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Browser, chromium } from 'playwright-core'

export type OpenedBrowser = { readonly browser: Browser; close(): Promise<void> }

const installed = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']
const args = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** The machine's own Chromium, or the one that npm brought. */
export async function openBrowser(): Promise<OpenedBrowser> {
  const own = installed.find((path) => existsSync(path))
  // The packed one unpacks itself under fixed names, so that two test runs need two folders.
  const folder = mkdtempSync(join(tmpdir(), 'rankledger-browser-'))
  const executablePath = own ?? (await unpackChromium(folder))
  const browser = await chromium.launch({ executablePath, args })
  return {
    browser,
    async close() {
      await browser.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

async function unpackChromium(folder: string): Promise<string> {
  const before = process.env['TMPDIR']
  process.env['TMPDIR'] = folder
  // With this it brings the libraries that a bare machine lacks.
  process.env['AWS_EXECUTION_ENV'] ??= 'AWS_Lambda_nodejs22.x'
  try {
    const packed = await import('@sparticuz/chromium')
    return await packed.default.executablePath()
  } finally {
    if (before === undefined) delete process.env['TMPDIR']
    else process.env['TMPDIR'] = before
  }
}
