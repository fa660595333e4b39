/** How TLS is spoken to services and proxies. Said here, the environment (NODE_TLS_REJECT_UNAUTHORIZED) cannot unsay it. */
export const VERIFIED = { rejectUnauthorized: true, minVersion: 'TLSv1.2' } as const;
