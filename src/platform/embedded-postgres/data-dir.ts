import { randomBytes } from 'node:crypto'
import { access, chmod, chown, constants, mkdir, realpath, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { canEnter, isRoot, type SystemAccount } from './account.ts'

/** The data dir's real path. It is made if missing, for its owner only: it holds secrets. */
export async function makeDataDir(path: string): Promise<string> {
  const wanted = resolve(path)
  try {
    await mkdir(dirname(wanted), { recursive: true })
    await mkdir(wanted, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    })
    await access(wanted, constants.R_OK | constants.W_OK | constants.X_OK)
    return await realpath(wanted)
  } catch (error) {
    throw explainDenied(error, wanted)
  }
}

/** Says whose turn it is when the system answers "permission denied"; any other error is returned as it is. */
export function explainDenied(error: unknown, path: string): unknown {
  const { code } = error as NodeJS.ErrnoException
  if (code !== 'EACCES' && code !== 'EPERM' && code !== 'EROFS') return error
  return new Error(
    `This account may not use ${path}: run as the account that owns it, choose another data dir with ` +
      'RANKLEDGER_DATA, or set DATABASE_URL.',
    { cause: error },
  )
}

/**
 * The folder that will hold the database files: the data dir if the account can be let in, else one of its own in
 * `roots`, of which the last is a temporary folder and worth a warning.
 */
export async function chooseFolder(
  dataDir: string,
  account: SystemAccount,
  warn: (sentence: string) => void,
  roots: readonly string[] = ['/var/lib/rankledger', join(tmpdir(), 'rankledger')],
): Promise<string> {
  if (!isRoot() || (await letIn(account, dataDir))) return dataDir
  for (const root of roots) {
    const folder = await makeFolderIn(root, account, basename(dataDir)).catch(() => null)
    if (!folder) continue
    if (root === roots.at(-1)) {
      warn(
        `The database of ${dataDir} lives in ${folder}, which the system may empty: choose a data dir with ` +
          'RANKLEDGER_DATA that other accounts can reach, or set DATABASE_URL.',
      )
    }
    return folder
  }
  throw new Error(
    `PostgreSQL does not run as root, and account ${account.uid} can reach neither ${dataDir} nor ` +
      `${roots.join(' nor ')}: choose another data dir with RANKLEDGER_DATA, or set DATABASE_URL.`,
  )
}

/** Passing through is granted to the account's group alone; what lies in the data dir stays closed to it. */
async function letIn(account: SystemAccount, dataDir: string): Promise<boolean> {
  if (await canEnter(account, dataDir)) return true
  if (!(await canEnter(account, dirname(dataDir)))) return false
  const { uid, mode } = await stat(dataDir)
  const groupHasRights = (mode & 0o070) !== 0
  if (groupHasRights) return false
  await chown(dataDir, uid, account.gid)
  await chmod(dataDir, (mode & 0o7777) | 0o010)
  return canEnter(account, dataDir)
}

/** The name is never used twice: a data dir deleted and made again begins with an empty database. */
async function makeFolderIn(root: string, account: SystemAccount, name: string): Promise<string | null> {
  await mkdir(root, { recursive: true })
  const { uid } = await stat(root)
  // In a folder that all may write, someone else could have made the root first and swap what is in it.
  if (uid !== 0) return null
  await chmod(root, 0o711)
  const folder = join(root, `${name.replace(/^\.+/, '')}-${randomBytes(6).toString('hex')}`)
  await mkdir(folder, { mode: 0o700 })
  return (await letIn(account, folder)) ? folder : null
}
