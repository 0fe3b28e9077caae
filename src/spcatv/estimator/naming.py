"""The names of scores in scikit-learn: those of every table of scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spcatv._util.naming import component_names
from spcatv._util.types import Array


class ComponentNamesMixin:
    """Gives a transformer the names of its scores, and with them ``set_output(transform="pandas")``."""

    components_: Any

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """The names of the scores: ``component_1``, ``component_2``, ...

        Parameters
        ----------
        input_features : None
            Ignored: the names of the features do not matter.

        Returns
        -------
        ndarray of str objects of shape (n_components,)
            One name per component.

        Examples
        --------
        >>> from spcatv import SPCATV
        >>> from spcatv.datasets import make_dots
        >>> dots = make_dots(n_samples=40, size=14, snr=2.0, random_state=0)
        >>> SPCATV(2, structure=dots.shape, sparsity=0.8).fit(dots.X).get_feature_names_out()
        array(['component_1', 'component_2'], dtype=object)
        """
        check_is_fitted(self)
        return np.asarray(component_names(len(self.components_)), dtype=object)
