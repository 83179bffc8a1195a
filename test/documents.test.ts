import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))
const decisions = readdirSync(join(root, 'docs/decisions')).sort()
const documents = ['.', 'docs', 'docs/decisions', 'ops', 'bench']
  .flatMap((folder) => readdirSync(join(root, folder)).map((name) => join(folder, name)))
  .filter((path) => path.endsWith('.md'))

test('decisions are numbered without gaps, by file and title alike', () => {
  const numbers = decisions.map((_, at) => at + 1)
  expect(decisions.length).toBeGreaterThan(15)
  expect(decisions.map((name) => /^(\d{4})-[a-z0-9-]+\.md$/.exec(name)?.[1])).toEqual(
    numbers.map((number) => String(number).padStart(4, '0')),
  )
  expect(decisions.map((name) => /^# (\d+)\. \S/.exec(textOf(`docs/decisions/${name}`))?.[1])).toEqual(
    numbers.map(String),
  )
})

test.each(decisions)('%s says context, decision, consequences and what else we considered', (name) => {
  const [, ...sections] = textOf(`docs/decisions/${name}`).split(/^## /m)
  expect(sections.map((section) => section.slice(0, section.indexOf('\n')))).toEqual([
    'Context',
    'Decision',
    'Consequences',
    'What else we considered',
  ])
  for (const section of sections) expect(section.split('\n').slice(1).join('').trim()).not.toBe('')
})

test('every link from one document to another leads somewhere', () => {
  const links = documents.flatMap((path) =>
    [...textOf(path).matchAll(/\]\(([^)\s]+)\)/g)].map(([, to]) => ({ path, to: to! })),
  )
  const inside = links.filter(({ to }) => !/^(?:[a-z]+:|#)/.test(to))
  expect(inside.length).toBeGreaterThan(60)
  const dead = inside.filter(({ path, to }) => !leadsSomewhere(path, to))
  expect(dead.map(({ path, to }) => `${path} → ${to}`)).toEqual([])
})

function textOf(path: string): string {
  return readFileSync(join(root, path), 'utf8')
}

/** To a file, and to one of its headings where the link names one. */
function leadsSomewhere(path: string, to: string): boolean {
  const [file, heading] = to.split('#') as [string, string?]
  const target = resolve(root, dirname(path), file)
  if (!existsSync(target)) return false
  return heading === undefined || headingsOf(readFileSync(target, 'utf8')).includes(heading)
}

/** As they are named in an address. */
function headingsOf(text: string): string[] {
  return [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
    heading!
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  )
}
