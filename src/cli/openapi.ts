import { openReadiness } from '../platform/http/readiness.ts'
import { buildServer } from '../server.ts'
import { type Command, parseFlags, printJson, withApp } from './command.ts'

export const openapi: Command = {
  summary: 'Print the OpenAPI document of this release',
  usage: `rankledger openapi

The same document that /openapi.json answers; the repository keeps a copy, and a test fails while it differs.`,

  async run(args) {
    parseFlags(args, {})
    return withApp('openapi', async (app) => {
      const http = await buildServer(app, openReadiness())
      printJson(http.swagger())
      await http.close()
      return 0
    })
  },
}
