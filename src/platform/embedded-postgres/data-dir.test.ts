import { chmod, mkdir, mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { canEnter } from './account.ts'
import { chooseFolder, makeDataDir } from './data-dir.ts'

const root = process.getuid?.() === 0
const nobody = { uid: 65534, gid: 65534 }

let folder: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'data-dir-test-'))
})

afterEach(() => rm(folder, { recursive: true }))

test('a missing data dir is made, with its parents, for its owner only', async () => {
  const made = await makeDataDir(join(folder, 'deep', 'down', '.data'))
  expect((await stat(made)).mode & 0o777).toBe(0o700)
})

describe.runIf(root)('where root lets the database live', () => {
  const unwarned = (sentence: string) => expect.fail(sentence)

  test('in the data dir, through which only the group of the account may then pass', async () => {
    await chmod(folder, 0o755)
    const dataDir = await makeDataDir(join(folder, '.data'))
    expect(await chooseFolder(dataDir, nobody, unwarned)).toBe(dataDir)
    expect((await stat(dataDir)).mode & 0o777).toBe(0o710)
    expect(await canEnter(nobody, dataDir)).toBe(true)
    expect(await canEnter({ uid: 65533, gid: 65533 }, dataDir)).toBe(false)
  })

  test('elsewhere when the data dir already grants its group something', async () => {
    await chmod(folder, 0o755)
    const dataDir = await makeDataDir(join(folder, '.data'))
    await chmod(dataDir, 0o750)
    const roots = [join(folder, 'var'), join(folder, 'tmp')]
    expect(dirname(await chooseFolder(dataDir, nobody, unwarned, roots))).toBe(roots[0])
    expect((await stat(dataDir)).mode & 0o777).toBe(0o750)
  })

  test('in the temporary folder, with a warning, when nothing better can be reached', async () => {
    await chmod(folder, 0o755)
    const closed = join(folder, 'closed')
    await mkdir(closed, { mode: 0o700 })
    const dataDir = await makeDataDir(join(closed, '.data'))
    const warnings: string[] = []
    const roots = [join(closed, 'var'), join(folder, 'tmp')]
    const chosen = await chooseFolder(dataDir, nobody, (sentence) => warnings.push(sentence), roots)
    expect(dirname(chosen)).toBe(roots[1])
    expect(warnings).toEqual([
      expect.stringMatching(/which the system may empty: .*RANKLEDGER_DATA.*DATABASE_URL\.$/),
    ])
  })

  test('nowhere: one sentence says what to do', async () => {
    const dataDir = await makeDataDir(join(folder, '.data'))
    await expect(chooseFolder(dataDir, nobody, unwarned, [join(folder, 'var')])).rejects.toThrow(
      /^PostgreSQL does not run as root, and account 65534 can reach neither .*DATABASE_URL\.$/,
    )
  })
})
