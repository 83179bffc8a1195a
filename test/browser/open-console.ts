import { existsSync } from 'node:fs'
import type { BrowserContext, Locator, Page } from 'playwright-core'
import { inject } from 'vitest'
import { openWorld, type World } from '../world.ts'
import { type OpenedBrowser, openBrowser } from './open-browser.ts'

/** The console of a world of its own, in a real browser. */
export type OpenedConsole = {
  readonly world: World
  readonly browser: OpenedBrowser['browser']
  readonly context: BrowserContext
  readonly page: Page
  /** What the browser complained of, on every page that is listened to. */
  readonly complaints: readonly string[]
  listen(page: Page): void
  /** Signs in as an operator would, without the form. */
  signIn(token: string): Promise<void>
  open(path: string): Promise<unknown>
  button(name: string | RegExp, within?: Pick<Page, 'getByRole'>): Locator
  dialog(): Locator
  close(): Promise<void>
}

export async function openConsole(): Promise<OpenedConsole> {
  const isBuilt = existsSync(new URL('../../console/dist/index.html', import.meta.url))
  if (!isBuilt) throw new Error('The console is not built: run `npm run build` first.')
  const opening = openBrowser(inject('browserFolder'))
  const world = await openWorld({ worker: true })
  const opened = await opening
  const context = await opened.browser.newContext({
    locale: 'en-US',
    viewport: { width: 1280, height: 900 },
  })
  const page = await context.newPage()
  page.setDefaultTimeout(180_000)
  const complaints: string[] = []
  const listen = (one: Page) => {
    one.on('console', (message) => {
      // What the API refuses is told by the page; the browser notes every status above 399 besides.
      if (message.type() === 'error' && !/Failed to load resource/.test(message.text()))
        complaints.push(message.text())
    })
    one.on('pageerror', (error) => complaints.push(String(error)))
  }
  listen(page)
  return {
    world,
    browser: opened.browser,
    context,
    page,
    complaints,
    listen,
    async signIn(token) {
      const answer = await context.request.post(`${world.url}/api/session`, {
        data: { token },
        headers: { 'x-console': '1' },
      })
      if (!answer.ok()) throw new Error(`Signing in was answered ${answer.status()}.`)
    },
    open: (path) => page.goto(`${world.url}/console${path}`),
    button: (name, within = page) => within.getByRole('button', { name, exact: typeof name === 'string' }),
    dialog: () => page.getByRole('dialog'),
    async close() {
      await opened.close()
      await world.close()
    },
  }
}
