#!/usr/bin/env python3
"""Stock clients against a running gateway: every data type, binary and JSON, and what else they put on the wire.

usage: oip_clients.py --url http://127.0.0.1:8080 --key ctk_... [--only TEXT] [--types fp32,bytes] [--list] [-v]

Expects services `identity-<type>` (identity-fp32, identity-bytes, ...) with input INPUT0 and output OUTPUT0 of shape [-1, -1],
in the key's namespace. The cases: client_cases.py goes through the stock clients, wire_cases.py through a plain socket. Prints what
failed and one summary line; exit status 1 if anything failed. Runs in the cache's Python environment (./dev setup).
"""
import argparse
import asyncio
import os
import sys
import traceback

from support import Context  # first: it finds the Python environment for the others

import client_cases
import wire_cases


async def run(args):
    context = Context(args)
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # aiohttp reports the connections that a case cut on purpose
    failures, passed = [], 0
    jobs = [(f"{kind.name}.{name}", kind, case) for kind in (client_cases.SyncClient, client_cases.AsyncClient) for name, case in client_cases.CASES]
    jobs += [(f"wire.{name}", None, case) for name, case in wire_cases.CASES]
    for name, kind, case in jobs:
        if args.only and args.only not in name:
            continue
        if args.list:
            print(name)
            continue
        client = kind(context.address, context.headers) if kind else None
        try:
            await (case(context, client) if client else case(context))
            passed += 1
            if args.verbose:
                print(f"ok     {name}")
        except Exception as error:  # a case may fail in any way; the others still run
            failures.append(name)
            print(f"FAILED {name}: {str(error) or type(error).__name__}")
            if args.verbose and not isinstance(error, AssertionError):
                traceback.print_exc()
        finally:
            if client:
                await client.close()
    if not args.list:
        print(f"clients: {passed} passed, {len(failures)} failed" + (f" ({', '.join(failures)})" if failures else ""))
    return 1 if failures or (not passed and not args.list) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default=os.environ.get("COTERIE_URL", "http://127.0.0.1:8080"))
    parser.add_argument("--key", default=os.environ.get("COTERIE_KEY", ""))
    parser.add_argument("--only", help="only cases whose name contains this")
    parser.add_argument("--types", help="only these data types (default: all)")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    sys.exit(asyncio.run(run(parser.parse_args())))


if __name__ == "__main__":
    main()
