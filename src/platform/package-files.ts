import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

/** The folder of this package: sources lie at several depths below it, and what was built from them at another. */
export const packageFolder: string = folderOfPackage(dirname(fileURLToPath(import.meta.url)))

/** A file or folder of this package that is neither source nor built from it, by its path from the package's folder. */
export function packageFile(path: string): string {
  return join(packageFolder, path)
}

/** The script of a thread. A thread needs JavaScript, so it comes from the build even where tests run the sources. */
export function threadScript(name: 'print' | 'train' | 'rung' | 'score'): URL {
  return pathToFileURL(packageFile(`dist/threads/${name}.js`))
}

function folderOfPackage(from: string): string {
  return existsSync(join(from, 'package.json')) ? from : folderOfPackage(dirname(from))
}
