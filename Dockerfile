# The two commands in a bare Debian 12, as a user who is not root:
#
#   docker build -t weft . && docker run --rm -it --init weft             sets up, builds; then trains the demo
#   docker build -t weft --build-arg BASE=ubuntu:24.04 .                  the same on Ubuntu
#   docker run --rm -it --init weft make test                             any other command of the README
ARG BASE=debian:12-slim
FROM ${BASE}
RUN apt-get update && apt-get install -y --no-install-recommends git make sudo && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home weft && echo 'weft ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/weft && install -d -o weft /weft
USER weft
WORKDIR /weft
COPY --chown=weft . .
RUN make
CMD ["make", "demo"]
