import { execFile } from 'node:child_process'
import { chown, mkdir, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { inventAccount, isInvented } from './own-account.ts'

/** The account PostgreSQL runs under. It refuses root, so for root this is somebody else. */
export type SystemAccount = { readonly uid: number; readonly gid: number }

/**
 * The owner of an existing cluster, else of the data dir, as long as that is not root; else an account of the cluster's
 * own that nobody has: as a known one, say `nobody`, any other process of that one could read and change the database.
 */
export async function chooseAccount(dataDir: string, pgdata: string): Promise<SystemAccount> {
  if (!isRoot()) return { uid: process.getuid!(), gid: process.getgid!() }
  const owner = (await ownerOf(pgdata)) ?? (await ownerOf(dataDir))
  if (owner && owner.uid !== 0) return owner
  // A folder that was made ready for an account, by this start or by one that was interrupted, is used by that one.
  const invited = await ownerOf(dirname(pgdata))
  return invited && isInvented(invited.gid) ? { uid: invited.gid, gid: invited.gid } : inventAccount()
}

export function isRoot(): boolean {
  return process.getuid?.() === 0
}

/** A folder that the account alone may enter. */
export async function makeFolderFor(account: SystemAccount, path: string): Promise<void> {
  await mkdir(path, { mode: 0o700 })
  if (isRoot()) await chown(path, account.uid, account.gid)
}

export async function ownerOf(path: string): Promise<SystemAccount | null> {
  const found = await stat(path).catch(() => null)
  return found && { uid: found.uid, gid: found.gid }
}

/**
 * What `spawn` needs to run a program as the account. The folder is `/` because the account may not be able to
 * enter ours, and the environment is bare: PG* variables would steer PostgreSQL, and provider keys are none of its
 * business.
 */
export function spawnOptionsFor(account: SystemAccount) {
  const base = { cwd: '/', env: { PATH: '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' } }
  // macOS numbers nobody 4294967294, which spawn takes only as the signed -2.
  return isRoot() ? { ...base, uid: account.uid | 0, gid: account.gid | 0 } : base
}

type Outcome = { readonly ok: boolean; readonly stdout: string; readonly stderr: string }

/** Runs a program to its end as the account. A program that cannot even be started is an outcome, not an exception. */
export function runAs(
  account: SystemAccount,
  file: string,
  args: readonly string[],
  input = '',
): Promise<Outcome> {
  return new Promise((resolve) => {
    const child = execFile(file, args, spawnOptionsFor(account), (error, stdout, stderr) => {
      resolve({ ok: !error, stdout, stderr: stderr || (error?.message ?? '') })
    })
    // A program that ends before it has read its input breaks the pipe; its outcome says why.
    child.stdin?.on('error', () => {})
    child.stdin?.end(input)
  })
}

/** Asks the system itself, as the account: parents, groups, access lists and mounts all have a say. */
export async function canEnter(account: SystemAccount, folder: string): Promise<boolean> {
  return (await runAs(account, '/bin/sh', ['-c', 'test -x "$1"', 'sh', folder])).ok
}
