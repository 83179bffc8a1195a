import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { readConfig } from '../src/config.ts'
import { namesRead, renderSettings, settings } from '../tools/settings.ts'

const documented = Object.values(settings).flat()

test('every setting that the code reads is documented, once, and no other', () => {
  expect(documented.map(({ name }) => name).sort()).toEqual(namesRead())
})

test.each(documented.filter(({ fallback }) => !fallback.startsWith('(')))(
  '$name is by default $fallback',
  ({ name, fallback }) => {
    expect(readConfig({ [name]: fallback })).toEqual(readConfig({}))
  },
)

test('docs/settings.md is what the code says; `npm run settings` writes it', () => {
  expect(readFileSync(new URL('../docs/settings.md', import.meta.url), 'utf8')).toBe(renderSettings())
})

test('a setting whose absence is refused is said to be required', () => {
  const live = { MODE: 'live' }
  const missing = [
    live,
    { ...live, DATABASE_URL: 'postgres://127.0.0.1/x', PAYMENT_PROVIDER: 'stripe' },
    { DATABASE_URL: 'postgres://127.0.0.1/x', PAYMENT_PROVIDER: 'portone' },
  ].flatMap((environment) => {
    try {
      readConfig(environment)
      return []
    } catch (error) {
      return [...(error as Error).message.matchAll(/(\w+) is required with/g)].map(([, name]) => name)
    }
  })
  const required = documented.filter((one) => one.required !== undefined).map(({ name }) => name)
  expect(missing.length).toBeGreaterThan(4)
  for (const name of missing) expect(required).toContain(name)
})
