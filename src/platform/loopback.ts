/** Whether only this machine can reach a server that listens there. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(host)
}

/** The same of a URL, whose IPv6 addresses stand in brackets. */
export function isUrlOfLoopback(url: string): boolean {
  return isLoopback(new URL(url).hostname.replace(/^\[|\]$/g, ''))
}

/** How a process of the same machine reaches a server that listens there. */
export function urlOnThisMachine(host: string, port: number): string {
  if (host === '0.0.0.0' || host === '::') return `http://127.0.0.1:${port}`
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`
}
