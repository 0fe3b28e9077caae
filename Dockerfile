# spca-tv in a container:
#     docker build -t spca-tv .
#     docker run --rm -u "$(id -u):$(id -g)" -v "$PWD:/data" spca-tv fit 'maps/*.nii.gz' --output results
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/spca-tv \
    && /opt/spca-tv/bin/pip install --no-cache-dir ".[images,report]"

FROM python:3.13-slim
COPY --from=build /opt/spca-tv /opt/spca-tv
# Compiled kernels and settings of Matplotlib go where any user may write. Mount a folder of your own at /cache, and
# the next container finds the kernels compiled.
ENV PATH=/opt/spca-tv/bin:$PATH \
    NUMBA_CACHE_DIR=/cache/numba \
    MPLCONFIGDIR=/cache/matplotlib
RUN useradd --create-home --uid 1000 spca-tv \
    && mkdir --mode=1777 /cache /data
USER 1000
WORKDIR /data
ENTRYPOINT ["spca-tv"]
CMD ["--help"]
