import { writeFile } from 'node:fs/promises'
import { openReadiness } from '../platform/http/readiness.ts'
import { buildServer } from '../server.ts'
import { type Command, explainFile, parseFlags, print, printJson, UsageError, withApp } from './command.ts'

export const openapi: Command = {
  summary: 'Write the OpenAPI document of this release',
  usage: `rankledger openapi FILE [--json]

The same document that /openapi.json answers; the repository keeps a copy, and a test fails while it differs.`,

  async run(args) {
    const { values, positionals } = parseFlags(args, { json: { type: 'boolean', default: false } })
    const [file, ...more] = positionals
    if (file === undefined || more.length > 0) throw new UsageError('Name the file to write.')
    return withApp('openapi', async (app) => {
      const http = await buildServer(app, openReadiness())
      await writeFile(file, `${printed(http.swagger())}\n`).catch(explainFile(file, 'written'))
      await http.close()
      if (values.json) printJson({ file, outcome: 'written' })
      else print(`${file} is written.`)
      return 0
    })
  },
}

/** A line for each operation and each component: a change is seen where it is, and no byte goes into indentation. */
function printed(value: object, depth = 3): string {
  const lines = Object.entries(value).map(([name, part]) => {
    const inner = depth > 1 && typeof part === 'object' && !Array.isArray(part)
    return `${JSON.stringify(name)}:${inner ? printed(part, depth - 1) : JSON.stringify(part)}`
  })
  return `{\n${lines.join(',\n')}\n}`
}
