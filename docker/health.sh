#!/bin/bash
# docker/health.sh - ask /health of the server in this container; 0 when it answers 200: not while the
# model is loaded, nor while it drains.
#
# The slim image has neither curl nor wget, but it has bash, whose /dev/tcp is enough for one
# request. The port is the one of the environment; a --port flag on the container's command line
# cannot be seen from here, so set QUIRE_PORT instead. It speaks no TLS: a server with a certificate
# needs another check.
exec 3<>"/dev/tcp/127.0.0.1/${QUIRE_PORT:-8080}" || exit 1
printf 'GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
read -r -t 2 _ status _ <&3 && [ "$status" = 200 ]
